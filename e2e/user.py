"""A user of a unit, who has the stanza alone, and OpenSSH's own programs."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.world import World, wait_until
from tests.forwards import READ
from tools.stack.client import handouts


@dataclass(frozen=True)
class Someone:
    """A user of a unit with the text that `make ssh-config UNIT=` prints, followed to the letter but for the folder."""

    unit: str
    config: Path
    key: Path

    @property
    def options(self) -> list[str]:
        """Say where this user's files are."""
        known = f"UserKnownHostsFile={self.config}.known"
        return ["-F", str(self.config), "-i", str(self.key), "-o", known, "-o", "BatchMode=yes"]

    def run(self, program: str, *words: str, **said: Any) -> "subprocess.CompletedProcess[str]":
        """Run one of OpenSSH's programs."""
        argv = [program, *self.options, *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, **said)

    def ssh(self, command: str, **said: Any) -> str:
        """Run *command* in the unit; give what it prints."""
        done = self.run("ssh", self.unit, command, **said)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @contextmanager
    def held(self, *words: str) -> Iterator["subprocess.Popen[str]"]:
        """Hold a connection open, its standard streams in the caller's hands."""
        with held(["ssh", *self.options, *words]) as process:
            yield process


@contextmanager
def held(argv: list[str], **said: Any) -> Iterator["subprocess.Popen[str]"]:
    """Run a program for a while; asked to end, ssh ends its ProxyCommand, too."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, text=True, stdin=pipe, stdout=pipe, **said) as process:
        try:
            yield process
        finally:
            process.terminate()


def first_line(process: "subprocess.Popen[str]") -> str:
    """Wait for the first line that a program prints."""
    assert process.stdout
    return process.stdout.readline().strip()


def read(port: int, *socks: int) -> str:
    """Say what a server behind *port* says, by SOCKS to port *socks*, tried until something listens."""
    argv = [sys.executable, "-c", READ, str(port), *map(str, socks)]
    said: list[str] = []

    def listens() -> bool:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode and "refused" in done.stderr:
            return False
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.strip())
        return True

    wait_until(listens, f"something to listen on port {port}")
    return said[0]


def someone(world: World, name: str, folder: Path) -> Someone:
    """Hand the text for one unit to its user."""
    config = folder / "config"
    text = handouts(world.workspace.engine().outputs(), f"{name}.lab-a")
    config.write_text(text)
    line = text.splitlines()[1].removeprefix("# ")
    Path(f"{config}.known").write_text(f"{line}\n")
    return Someone(f"{name}.lab-a", config, world.workspace.identity)


def uptime() -> float:
    """Give the time as `/proc/uptime` has it, in a unit on this machine as here."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
