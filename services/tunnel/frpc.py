"""One frpc process: started with its own files, asked how it is, ended."""

import base64
import contextlib
import http.client
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import IO, cast

from tunnel.allowance import Allowance
from tunnel.frpc_config import Admin, frpc_config
from tunnel.log import event
from tunnel.wanted import Server, Wanted

ASK_SECONDS = 1.0
"""For an answer on loopback; who takes longer is not asked again before the next round."""

END_SECONDS = 2.0
"""Between SIGTERM and SIGKILL; frpc ends at once unless the node is very busy."""

LINE_LIMIT = 4096
"""Characters of one log line of frpc."""

OWN_REQUESTS = ("http request: [/api/status]", "http response [/api/status]")
"""frpc logs each of our questions; nobody wants to read them."""

LOGGED_IN = "login to server success"

NO_SESSION = ("start new connection to server error", "work connection write to server error")
"""How frpc warns that the connection which a session takes could not be opened. Of one that could it logs nothing."""

CUT_OFF_SECONDS = 45.0
"""How long such a warning counts: nobody hears when sessions get through again, so it must end by itself."""

COMPLAINT = re.compile(r"\[[WE]\] \[[^\]]*\] (?:\[[0-9a-f-]*\] )?(?P<message>.*)")
"""A line of frpc's log at level warning or error: level, place in the source, run id, message."""


class Link(Enum):
    """How frpc stands with its server."""

    UNKNOWN = "unknown"
    """It cannot be asked right now."""
    DOWN = "down"
    """Not logged in; to readers of the log also: logged in, and no session gets through."""
    IDLE = "idle"
    """Logged in and not announced (yet): sshd does not answer, or frps has not."""
    REFUSED = "refused"
    """Logged in, and the host was refused."""
    ANNOUNCED = "announced"
    """Logged in, and the host leads here."""


@dataclass(frozen=True)
class Program:
    """What every frpc of this tunnel has in common: its binary, the folder of its files, sshd's port, its log."""

    frpc: Path
    state: Path
    local_port: int
    lines: Allowance = field(default_factory=lambda: Allowance("frpc"))


@dataclass
class Frpc:
    """A started frpc; ``wanted`` is what it was started with."""

    server: Server
    wanted: Wanted
    process: subprocess.Popen[str]
    admin: Admin
    folder: Path
    address: str
    """Where it dials: so that sessions, each of which has a connection of its own, need no name server."""
    announced: bool = False
    stale: bool = False
    returned: bool = False
    """It logged in again with what was outdated by then."""
    look_due: float = 0.0
    link: Link = Link.UNKNOWN
    reason: str = field(default="", repr=False)
    """Why the host was refused, in frps' words."""
    complaint: str = field(default="", repr=False)
    """The last thing that frpc warned of."""
    refusal: tuple[str, float] = field(default=("", 0.0), repr=False)
    """Why a session's connection to the server could not be opened, and until when that counts."""

    @property
    def why(self) -> str:
        """Say why it stands as it does, empty where all is well."""
        return self.reason or (self.complaint if self.link in (Link.DOWN, Link.UNKNOWN) else "")

    def hear(self, line: str, now: float) -> None:
        """Keep what a *line* of its log tells."""
        complaint = complaint_of(line)
        self.complaint = complaint or self.complaint
        if complaint.startswith(NO_SESSION):
            self.refusal = complaint, now + CUT_OFF_SECONDS
            self.look_due = 0.0  # the server may have moved: a session waits no longer than it must
        if LOGGED_IN in line:
            self.returned = self.returned or self.stale
            self.refusal = "", 0.0

    def cut_off(self, now: float) -> str:
        """Say why sessions do not get through, as far as was heard lately, though it may be logged in; else empty."""
        reason, until = self.refusal
        return reason if now < until else ""

    def look(self) -> Link:
        """Ask frpc how it stands; ``link`` and ``reason`` keep the answer."""
        self.link, self.reason = link_of(_status(self.admin), self.wanted.unit.host)
        self.announced = self.announced or self.link is Link.ANNOUNCED
        return self.link

    def expire(self) -> None:
        """Let this frpc live for as long as it is logged in; it keeps the token and metadata of its start.

        Its files stay: without them it could not open the connection that each new session takes.
        """
        if not self.stale:
            self.stale = True
            event("outdated", server=self.server.name, reason="what changed is used at the next login")

    def end(self) -> None:
        """End the process, wait for it, and remove its files."""
        self.process.terminate()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def start(program: Program, server: Server, wanted: Wanted, address: str) -> Frpc:
    """Write the files of a new frpc, which dials *address*, and start it.

    Raises:
        OSError: the files cannot be written, or frpc cannot be started.

    """
    folder = program.state / server.name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    admin = Admin(_free_port(), secrets.token_hex(16))
    config = folder / "frpc.json"
    write_private(folder / "ca.crt", wanted.access.ca)
    write_private(folder / "token", wanted.access.token)
    write_private(config, frpc_config(wanted, replace(server, address=address), admin, folder, program.local_port))
    process = subprocess.Popen(  # noqa: S603 - our binary, our file
        [program.frpc, "-c", config],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={},  # frpc takes a proxy from the environment and fills templates from it
        cwd=folder,
    )
    frpc = Frpc(server, wanted, process, admin, folder, address)
    threading.Thread(target=_pass_on, args=(frpc, program.lines), daemon=True).start()
    return frpc


def write_private(path: Path, text: str) -> None:
    """Write *text* so that only we can read it, at no moment half."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


def link_of(status: object, host: str) -> tuple[Link, str]:
    """Read frpc's answer to ``/api/status``: a proxy is listed exactly while frpc is logged in."""
    if not isinstance(status, dict):
        return Link.UNKNOWN, ""
    proxies = [proxy for proxy in status.get("tcpmux", []) if proxy.get("name") == host]
    if not proxies:
        return Link.DOWN, ""
    match proxies[0].get("status"):
        case "running":
            return Link.ANNOUNCED, ""
        case "start error":
            return Link.REFUSED, str(proxies[0].get("err", ""))[:LINE_LIMIT]
        case _:
            return Link.IDLE, ""


def _status(admin: Admin) -> object:
    login = base64.b64encode(f"{admin.user}:{admin.password}".encode()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", admin.port, timeout=ASK_SECONDS)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/api/status", headers={"Authorization": f"Basic {login}"})
            answer = connection.getresponse()
            return json.loads(answer.read()) if answer.status == http.HTTPStatus.OK else None
        except (OSError, http.client.HTTPException, ValueError):
            return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _pass_on(frpc: Frpc, allowed: Allowance) -> None:
    """Hear each line of its log, and say those that the log of this container has room for."""
    hidden = (frpc.wanted.access.token, frpc.wanted.access.capability, frpc.admin.password)
    with cast("IO[str]", frpc.process.stdout) as lines:
        while line := lines.readline(LINE_LIMIT):
            if any(own in line for own in OWN_REQUESTS):
                continue
            shown = without(line.rstrip(), hidden)
            now = time.monotonic()
            frpc.hear(shown, now)
            if allowed.take(now):
                event("frpc", server=frpc.server.name, line=shown)


def complaint_of(line: str) -> str:
    """Give the message of a line at level W or E, without its time and place; empty for any other line."""
    found = COMPLAINT.search(line)
    return found["message"].strip() if found else ""


def without(line: str, hidden: tuple[str, ...]) -> str:
    """Return *line* with each of the *hidden* secrets made unreadable; frpc prints none, this makes sure."""
    for secret in hidden:
        line = line.replace(secret, "***")
    return line
