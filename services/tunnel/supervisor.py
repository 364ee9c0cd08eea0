"""Keeps one frpc per server as the mounted directory wants it, without ever cutting a live one for a changed secret."""

import contextlib
import os
import random
import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tunnel.frpc import Frpc, Link, Program, start
from tunnel.log import event
from tunnel.wanted import Server, Wanted, WantedError, read_wanted

TICK_SECONDS = 0.25
"""Between rounds: how soon a dead frpc is seen, and sshd's first answer."""

READ_SECONDS = 1.0
"""Between looks at the directory; the kubelet needs many times as long to change it."""

LOOK_SECONDS = 1.0
"""Between questions to an frpc that is not what is wanted (yet)."""

SETTLED_SECONDS = 5.0
"""Between questions to an frpc that is announced and has the newest files."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 10.0
"""Seconds before a server is tried again: at first, and at most."""


def should_restart(frpc: Frpc, wanted: Wanted) -> bool:
    """Tell whether a running *frpc* must make way for one started with *wanted*.

    A new name takes effect at once. New secrets wait for the next login: they replace an frpc that is not logged in, or
    whose host is refused, never one that is announced or idle. Not to know is no reason to cut anything.
    """
    if frpc.wanted.unit != wanted.unit:
        return True
    if frpc.link is Link.REFUSED:
        return frpc.stale or not frpc.announced
    return frpc.stale and frpc.link is Link.DOWN


@dataclass
class Retry:
    """When a server may be tried again: exponential, with jitter, so that units do not return in step."""

    failures: int = 0
    due: float = 0.0

    def failed(self, now: float) -> float:
        """Count one more failure and return the seconds to wait."""
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(self.failures, 10)) * random.uniform(0.5, 1.0)  # noqa: S311
        self.failures += 1
        self.due = now + wait
        return wait


@dataclass
class Supervisor:
    """The tunnel: call ``run`` once."""

    directory: Path
    program: Program
    stop: threading.Event = field(default_factory=threading.Event)
    running: dict[Server, Frpc] = field(default_factory=dict)
    retries: dict[Server, Retry] = field(default_factory=dict)
    wanted: Wanted | None = None
    complaints: dict[str, str] = field(default_factory=dict)
    read_due: float = 0.0

    def run(self) -> None:
        """Keep the tunnel until ``stop`` is set, then end every frpc."""
        try:
            while not self.stop.is_set():
                self.round(time.monotonic())
                self.stop.wait(TICK_SECONDS)
        finally:
            for frpc in self.running.values():
                frpc.process.terminate()
            for server in list(self.running):
                self._end(server, "stopping")

    def round(self, now: float) -> None:
        """Go once through everything: dead processes, the directory, each server."""
        self._bury(now)
        if now >= self.read_due:
            self.read_due = now + READ_SECONDS
            self._read()
        if self.wanted is None:
            return
        for server in set(self.running) - set(self.wanted.servers):
            self._end(server, "no longer wanted")
            self.retries.pop(server, None)
        for server in self.wanted.servers:
            self._keep(server, self.wanted, now)

    def _read(self) -> None:
        try:
            wanted = read_wanted(self.directory)
        except WantedError as error:
            self._complain("waiting-for-files", str(error))
            return
        self.complaints.pop("waiting-for-files", None)
        if wanted != self.wanted:
            self.wanted = wanted
            for frpc in self.running.values():
                frpc.look_due = 0.0

    def _keep(self, server: Server, wanted: Wanted, now: float) -> None:
        frpc = self.running.get(server)
        if frpc is None:
            self._start(server, wanted, now)
            return
        if now < frpc.look_due:
            return
        self._look(frpc)
        if frpc.wanted.access != wanted.access:
            frpc.expire()
        settled = frpc.link is Link.ANNOUNCED and frpc.wanted == wanted
        frpc.look_due = now + (SETTLED_SECONDS if settled else LOOK_SECONDS)
        if should_restart(frpc, wanted):
            refused = frpc.link is Link.REFUSED
            self._end(server, "refused" if refused else "to use what changed")
            if refused:
                self._retry(server).failed(now)

    def _start(self, server: Server, wanted: Wanted, now: float) -> None:
        if now < self._retry(server).due:
            return
        if not answers(self.program.local_port):
            self._complain("waiting-for-sshd", f"nothing answers on 127.0.0.1:{self.program.local_port}")
            return
        self.complaints.pop("waiting-for-sshd", None)
        try:
            self.running[server] = start(self.program, server, wanted)
        except OSError as error:
            event("cannot-start", server=server.name, reason=str(error), retry=self._retry(server).failed(now))
            return
        event("started", server=server.name, address=f"{server.address}:{server.port}", host=wanted.unit.host)

    def _look(self, frpc: Frpc) -> None:
        before = frpc.link
        if frpc.look() is before:
            return
        reason = {"reason": frpc.reason} if frpc.reason else {}
        event("link", server=frpc.server.name, link=frpc.link.value, before=before.value, **reason)
        if frpc.link is Link.ANNOUNCED:
            self.retries.pop(frpc.server, None)

    def _end(self, server: Server, reason: str) -> None:
        self.running.pop(server).end()
        event("ended", server=server.name, reason=reason)

    def _bury(self, now: float) -> None:
        reap_orphans({frpc.process.pid for frpc in self.running.values()})
        for server, frpc in list(self.running.items()):
            code = frpc.process.poll()
            if code is not None:
                del self.running[server]
                event("exited", server=server.name, code=code, retry=round(self._retry(server).failed(now), 2))

    def _retry(self, server: Server) -> Retry:
        return self.retries.setdefault(server, Retry())

    def _complain(self, name: str, reason: str) -> None:
        if self.complaints.get(name) != reason:  # said once, not once a round
            self.complaints[name] = reason
            event(name, reason=reason)


def answers(port: int) -> bool:
    """Tell whether something accepts connections on loopback's *port*."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
        return True
    return False


def reap_orphans(ours: set[int]) -> None:
    """Bury dead children that are not *ours*: as process 1 of a container we inherit them."""
    with contextlib.suppress(ChildProcessError):
        while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if dead.si_pid in ours:
                return  # its exit code is for Popen; orphans behind it are met in the next round
            os.waitpid(dead.si_pid, 0)
