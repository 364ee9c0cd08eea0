"""Keeps one frpc per server as the mounted directory wants it, without ever cutting a live one for a changed secret."""

import contextlib
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tunnel.addresses import Addresses
from tunnel.frpc import Frpc, Link, Program, start
from tunnel.log import event
from tunnel.retry import Retry
from tunnel.sshd import unanswered
from tunnel.wanted import Server, Wanted, WantedError, read_wanted

TICK_SECONDS = 0.1
"""Between rounds: how soon a dead frpc is seen, and sshd's first answer, for which the first login waits."""

READ_SECONDS = 1.0
"""Between looks at the directory; the kubelet needs many times as long to change it."""

LOOK_SECONDS = 1.0
"""Between questions to an frpc that is not what is wanted (yet)."""

SETTLED_SECONDS = 5.0
"""Between questions to an frpc that is announced and has the newest files."""

SAY_SECONDS = 45.0
"""Between lines that say how a server stands though nothing changed; readers count on one a minute."""


def should_restart(frpc: Frpc, wanted: Wanted) -> bool:
    """Tell whether a running *frpc* must make way for one started with *wanted*.

    A new name takes effect at once. New secrets wait for the next login: they replace an frpc that is not logged in, or
    that was faster and has logged in again with the old ones, or whose host is refused; never another that is announced
    or idle. Not to know is no reason to cut anything.
    """
    if frpc.wanted.unit != wanted.unit:
        return True
    if frpc.link is Link.REFUSED:
        return frpc.stale or not frpc.announced
    return frpc.stale and (frpc.link is Link.DOWN or frpc.returned)


@dataclass(frozen=True)
class Word:
    """What was last said of a server, which is what readers of the log believe until the next word."""

    link: Link
    reason: str
    servers: tuple[str, ...]
    """All servers of the list then."""
    due: float
    """When it is said again."""

    def same(self, other: "Word") -> bool:
        """Tell whether *other* says nothing new."""
        return (self.link, self.reason, self.servers) == (other.link, other.reason, other.servers)


@dataclass
class Supervisor:
    """The tunnel: call ``run`` once."""

    directory: Path
    program: Program
    stop: threading.Event = field(default_factory=threading.Event)
    stays: bool = False
    """Whether to go on after ``stop`` while sshd answers."""
    running: dict[Server, Frpc] = field(default_factory=dict)
    retries: dict[Server, Retry] = field(default_factory=dict)
    wanted: Wanted | None = None
    complaints: dict[str, tuple[str, float]] = field(default_factory=dict)
    said: dict[Server, Word] = field(default_factory=dict)
    failed: dict[Server, str] = field(default_factory=dict)
    """Why a server that has no frpc now has none."""
    addresses: Addresses = field(default_factory=Addresses)
    sshd: str = ""
    """Why sshd does not greet; empty while it does."""
    sshd_due: float = 0.0
    read_due: float = 0.0

    def run(self) -> None:
        """Keep the tunnel until ``stop`` is set, and sshd has ended where that is to be seen; then end every frpc."""
        try:
            while not self.stop.is_set():
                self.round(time.monotonic())
                self.stop.wait(TICK_SECONDS)
            while self.stays and not unanswered(self.program.local_port):
                self.round(time.monotonic())
                time.sleep(TICK_SECONDS)
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
            self._read(now)
        if self.wanted is None:
            return
        for server in set(self.running) - set(self.wanted.servers):
            self._end(server, "no longer wanted")
        for known in (self.retries, self.failed, self.said):
            for server in set(known) - set(self.wanted.servers):
                known.pop(server)
        for server in self.wanted.servers:
            self._keep(server, self.wanted, now)
            self._tell(server, self.wanted, now)

    def _tell(self, server: Server, wanted: Wanted, now: float) -> None:
        """Say how *server* stands where that is news, and every so often."""
        before = self.said.get(server)
        again = before is None or now >= before.due
        if server in self.running and now >= self.sshd_due:
            self._greet(now)
        word = Word(*self._standing(server, now), tuple(one.name for one in wanted.servers), now + SAY_SECONDS)
        if before and word.same(before) and not again:
            return
        self.said[server] = word
        reason = {"reason": word.reason} if word.reason else {}
        host = wanted.unit.host
        event("link", server=server.name, state=word.link.value, **reason, servers=word.servers, host=host)

    def _standing(self, server: Server, now: float) -> tuple[Link, str]:
        """Tell how *server* stands; announced is only what also takes sessions and leads to an sshd that greets."""
        frpc = self.running.get(server)
        if frpc is None:
            return Link.DOWN, self.sshd or self.failed.get(server, "")
        if frpc.link is Link.ANNOUNCED and self.sshd:
            return Link.IDLE, self.sshd
        if frpc.link is Link.ANNOUNCED and (reason := frpc.cut_off(now)):
            return Link.DOWN, reason
        return frpc.link, frpc.why or (self.sshd if frpc.link is Link.IDLE else "")

    def _read(self, now: float) -> None:
        try:
            wanted = read_wanted(self.directory)
        except WantedError as error:
            self._complain("waiting-for-files", str(error), now)
            return
        self.complaints.pop("waiting-for-files", None)
        if wanted != self.wanted:
            self.wanted = wanted
            for server in wanted.servers:
                self.addresses.look(server, now)
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
        settled = frpc.link is Link.ANNOUNCED and frpc.wanted == wanted and not frpc.cut_off(now)
        frpc.look_due = now + (SETTLED_SECONDS if settled else LOOK_SECONDS)
        if self._moved(frpc, now):
            self._end(server, "its server has another address")
        elif should_restart(frpc, wanted):
            refused = frpc.link is Link.REFUSED
            self._end(server, "refused" if refused else "to use what changed")
            if refused:
                self._retry(server).failed(now)

    def _start(self, server: Server, wanted: Wanted, now: float) -> None:
        if now < self._retry(server).due:
            return
        self._greet(now)
        if self.sshd:
            self._complain("waiting-for-sshd", self.sshd, now)
            return
        self.complaints.pop("waiting-for-sshd", None)
        self.addresses.look(server, now)
        address = self.addresses.of(server)
        if address is None:
            return
        try:
            self.running[server] = start(self.program, server, wanted, address)
        except OSError as error:
            self.failed[server] = f"frpc cannot be started: {error}"
            event("cannot-start", server=server.name, reason=str(error), retry=self._retry(server).failed(now))
            return
        event("started", server=server.name, address=f"{address}:{server.port}", host=wanted.unit.host)

    def _moved(self, frpc: Frpc, now: float) -> bool:
        """Tell whether a server that takes no session of this *frpc* has another address by now.

        Not asked while sessions get through: to replace an frpc ends those that run, and some names lead elsewhere at
        every look. Where the address is the one before, frpc goes on: the server is busy, or on its way back.
        """
        if frpc.link is not Link.DOWN and not frpc.cut_off(now):
            return False
        self.addresses.look(frpc.server, now)
        return self.addresses.of(frpc.server) != frpc.address

    def _look(self, frpc: Frpc) -> None:
        before = frpc.link
        if frpc.look() is not before and frpc.link is Link.ANNOUNCED:
            self.sshd_due = 0.0
            self.retries.pop(frpc.server, None)
            self.failed.pop(frpc.server, None)

    def _greet(self, now: float) -> None:
        """Look whether sshd greets: seldom while it does, for each look makes it fork."""
        self.sshd = unanswered(self.program.local_port)
        self.sshd_due = now + (LOOK_SECONDS if self.sshd else SAY_SECONDS)

    def _end(self, server: Server, reason: str) -> None:
        self.running.pop(server).end()
        event("ended", server=server.name, reason=reason)

    def _bury(self, now: float) -> None:
        reap_orphans({frpc.process.pid for frpc in self.running.values()})
        for server, frpc in list(self.running.items()):
            code = frpc.process.poll()
            if code is not None:
                del self.running[server]
                self.failed[server] = frpc.complaint or f"frpc ended with {code}"
                event("exited", server=server.name, code=code, retry=round(self._retry(server).failed(now), 2))

    def _retry(self, server: Server) -> Retry:
        return self.retries.setdefault(server, Retry())

    def _complain(self, name: str, reason: str, now: float) -> None:
        before, due = self.complaints.get(name, ("", 0.0))
        if before != reason or now >= due:  # not once a round
            self.complaints[name] = reason, now + SAY_SECONDS
            event(name, reason=reason)


def reap_orphans(ours: set[int]) -> None:
    """Bury dead children that are not *ours*: as process 1 of a container we inherit them."""
    with contextlib.suppress(ChildProcessError):
        while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if dead.si_pid in ours:
                return  # its exit code is for Popen; orphans behind it are met in the next round
            os.waitpid(dead.si_pid, 0)
