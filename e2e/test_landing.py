"""Landing modes on a real cluster, through the tunnel, with the stanza that users are handed and nothing else."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import made, on_a_fresh_rig
from e2e.world import World
from tools.stack.client import handouts

pytestmark = pytest.mark.e2e

UNITS = ("plain", "own", "beside")


@dataclass(frozen=True)
class Someone:
    """A user of a unit with the text that `make ssh-config UNIT=` prints, followed to the letter but for the folder."""

    unit: str
    config: Path
    key: Path

    def run(self, program: str, *words: str, **said: Any) -> "subprocess.CompletedProcess[str]":
        """Run one of OpenSSH's programs."""
        known = f"UserKnownHostsFile={self.config}.known"
        argv = [program, "-F", str(self.config), "-i", str(self.key), "-o", known, "-o", "BatchMode=yes", *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, **said)

    def ssh(self, command: str, **said: Any) -> str:
        """Run *command* in the unit; give what it prints."""
        done = self.run("ssh", self.unit, command, **said)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Someone]]:
    """Give a user for each unit of a stack that is up."""
    with on_a_fresh_rig(tmp_path_factory.mktemp("landing"), "landing") as bare:
        world = made(bare)
        yield {name: someone(world, name, tmp_path_factory.mktemp(name)) for name in UNITS}


def someone(world: World, name: str, folder: Path) -> Someone:
    """Hand the text for one unit to its user."""
    config = folder / "config"
    text = handouts(world.workspace.engine().outputs(), f"{name}.lab-a")
    config.write_text(text)
    line = text.splitlines()[1].removeprefix("# ")
    Path(f"{config}.known").write_text(f"{line}\n")
    return Someone(f"{name}.lab-a", config, world.workspace.identity)


def test_workload(users: dict[str, Someone], tmp_path: Path) -> None:
    """Our sshd is in the program's container; scp works by sftp and by its older way, and a script may be piped."""
    alice = users["plain"]
    assert alice.ssh('id -un; echo "$LINES"; cat /proc/1/comm') == "alice\none\ntwo\ntini"
    file = tmp_path / "file"
    file.write_bytes(bytes(range(256)) * 4096)
    for flag in ("-s", "-O"):
        assert alice.run("scp", flag, str(file), f"{alice.unit}:file{flag}").returncode == 0
        assert alice.run("scp", flag, f"{alice.unit}:file{flag}", f"{file}{flag}").returncode == 0
        assert Path(f"{file}{flag}").read_bytes() == file.read_bytes()
    piped = alice.run("ssh", "-T", alice.unit, "bash", input="echo piped; exit 3")
    assert (piped.stdout, piped.returncode) == ("piped\n", 3)


def test_image(users: dict[str, Someone]) -> None:
    """The image's own entrypoint started its own sshd and the program of `args`; the session has the variables."""
    bob = users["own"]
    assert bob.ssh('id -un; echo "$LINES"; cat ~/note; ls /.gpu-runtime 2>&1 | tail -c 26') == (
        "bob\none\ntwo\nstarted by its own entrypoint\nNo such file or directory"
    )


def test_sidecar(users: dict[str, Someone]) -> None:
    """A login lands beside the program, which runs unwrapped and is reached on its own loopback."""
    carol = users["beside"]
    assert carol.ssh("id -un; pwd; test -e /usr/bin/python3 || echo no image; echo ${GPU_COUNT:-no variables}") == (
        "carol\n/home/carol\nno image\nno variables"
    )
    through = carol.run("ssh", "-W", "127.0.0.1:4242", carol.unit, input="GET /comm HTTP/1.0\r\n\r\n")
    assert through.stdout.endswith("python3\n"), through.stderr


def test_forwards_lead_into_a_unit_alone(users: dict[str, Someone]) -> None:
    """-R is refused by every sshd of ours, through the tunnel as beside it."""
    for user in users.values():
        done = user.run("ssh", "-o", "ExitOnForwardFailure=yes", "-R", "5003:127.0.0.1:9", user.unit, "true")
        assert "remote port forwarding failed" in done.stderr
