"""Logins beside who only occupies: real ssh, two entrances, the pinned frps, and the bundle's sshd as units run it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench import sshd as bundle
from components.entrance_config import STARTUPS, LimitsSpec
from tests.services.doors import Entrance
from tests.services.sessions import HOST, OpenEntrance
from tools.stack.client import through
from tools.stack.engine import REPOSITORY

RUDE = "127.1.0.1"


@dataclass(frozen=True)
class Sshd:
    """A running sshd, and the key that it takes."""

    port: int
    key: Path

    def login(self, entrance: Entrance) -> "subprocess.CompletedProcess[str]":
        """Log in through *entrance*."""
        proxy = (f"-o{key}={value}" for key, value in through("127.0.0.1", entrance.port).items())
        known = ("-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oBatchMode=yes", "-oLogLevel=ERROR")
        argv = ["ssh", "-F", "none", "-i", str(self.key), *known, *proxy, f"bench@{HOST}", "echo in"]
        return subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.fixture
def sshd() -> Iterator[Sshd]:
    """Start the bundle's sshd."""
    if os.geteuid():
        pytest.skip("sshd gets a mount namespace of its own, as root makes them")
    with TemporaryDirectory(prefix="gpu-runtime-sshd-") as scratch:  # pytest's own folders are closed to its user
        folder = Path(scratch)
        folder.chmod(0o755)
        with bundle.sshd(folder) as port:
            yield Sshd(port, folder / "client")


def test_one_source_keeps_nobody_from_logging_in(entrance_to: OpenEntrance, sshd: Sshd) -> None:
    """One source holds all that it can at both servers and never logs in; each login of others succeeds beside it."""
    entrances = [entrance_to(), entrance_to()]
    with ExitStack() as held:
        said = []
        for number in range(200):
            status, connection = entrances[number % 2].open(HOST, RUDE)
            held.enter_context(connection)
            said.append(status)
        assert sum(b" 200 " in status for status in said) == 2 * LimitsSpec().of_pair
        for number in range(6):
            done = sshd.login(entrances[number % 2])
            assert (done.stdout, done.stderr) == ("in\n", "")


@pytest.mark.parametrize("file", ["images/ssh-bundle/libexec/serve", "images/ssh-workspace/sshd_config"])
def test_sshd_turns_nobody_away_below_what_is_promised(file: str) -> None:
    """Preview judges limits by the number from which on our images' sshd turns logins away."""
    assert f"\nMaxStartups {STARTUPS}:30:200\n" in (REPOSITORY / file).read_text()
