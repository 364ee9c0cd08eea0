"""Pass a unit's audit log on: who began and ended a session, into this container's log, where the operator reads it.

sshd writes that log under the user's own uid, so that a user can forge, hide or flood it: what is passed on is the
unit's own word of itself. Therefore only lines of exactly the known form are, few at a time, and no other file is ever
read in place of the log. (That a session came at all is on the gate's word, too, which no user reaches.)
"""

import contextlib
import os
import re
import stat
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tunnel.allowance import Allowance
from tunnel.log import event

LOOK_SECONDS = 1.0
"""Between looks at the log."""

CHUNK = 65536
"""Bytes that one look takes at most."""

LINE = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) session-(?P<what>start|end|revoked)"
    r"(?P<fields>( (session|user|port|type|key|ca|serial|certificate|seconds)=[A-Za-z0-9._@:+/?=-]{1,128}){1,9})"
)


def parsed(line: str) -> dict[str, str] | None:
    """Give what a line of the log says, or None where it is none of ours."""
    found = LINE.fullmatch(line)
    if found is None:
        return None
    fields = dict(field.partition("=")[::2] for field in found["fields"].split())
    return {"what": found["what"], "at": found["at"], **fields}


@dataclass
class AuditLog:
    """The log at *path*, which may be turned over, cut, removed or replaced at any time."""

    path: Path
    memory: Path
    """File of our own that keeps the place over a restart of this program."""
    file: int | None = None
    inode: int = 0
    rest: bytes = b""

    def read(self) -> list[str]:
        """Return the whole lines that came since the last call."""
        if self.file is None:
            self._open()
        text = self._more()
        if not text and self._moved():
            self.close()
            self._open()
            text = self._more()
        *lines, self.rest = (self.rest + text).split(b"\n")
        self.rest = self.rest[-CHUNK:]
        if text:
            self._remember()
        return [line.decode("ascii", "replace") for line in lines]

    def close(self) -> None:
        """Let go of the file."""
        if self.file is not None:
            os.close(self.file)
            self.file, self.rest = None, b""

    def _open(self) -> None:
        """Open the log itself: no link, which may lead to this container's secrets, and nothing that one waits for."""
        with contextlib.suppress(OSError):
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                os.close(file)
                return
            self.file, self.inode = file, found.st_ino
            os.lseek(file, min(self._remembered(), found.st_size), os.SEEK_SET)

    def _more(self) -> bytes:
        if self.file is None:
            return b""
        if os.fstat(self.file).st_size < os.lseek(self.file, 0, os.SEEK_CUR):
            os.lseek(self.file, 0, os.SEEK_SET)
        return os.read(self.file, CHUNK)

    def _moved(self) -> bool:
        with contextlib.suppress(OSError):
            return self.path.lstat().st_ino != self.inode
        return False

    def _remembered(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            inode, place = self.memory.read_text().split()
            return int(place) if int(inode) == self.inode else 0
        return 0

    def _remember(self) -> None:
        with contextlib.suppress(OSError):
            place = os.lseek(self.file or 0, 0, os.SEEK_CUR) - len(self.rest)
            self.memory.write_text(f"{self.inode} {place}")


def pass_on(log: AuditLog, allowance: Allowance, now: float) -> None:
    """Say each new line of *log* that is one."""
    for line in log.read():
        said = parsed(line)
        if said is not None and allowance.take(now):
            event("session", **said)


def follow(path: Path, memory: Path, stop: threading.Event) -> None:
    """Pass the log at *path* on until *stop* is set, to its end."""
    log, allowance, over = AuditLog(path, memory), Allowance("session"), False
    while not over:
        over = stop.wait(LOOK_SECONDS)
        try:
            pass_on(log, allowance, time.monotonic())
        except OSError as error:
            event("session-log", reason=str(error))
            log.close()
