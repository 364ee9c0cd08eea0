"""docs/ssh.md: each command in it is run as it stands there, by somebody who has the stanza alone."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.ssh_client import Access
from tests.guide import COMMANDS, ENDING, FILE, HELD, users_folder
from tests.images.containers import USER, Pod, Running, until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder, which the commands share as one shell session would."""
    return tmp_path_factory.mktemp("user")


@pytest.fixture
def someone(workspace: Pod, keys: Path, bundle_content: Path, folder: Path) -> Iterator[tuple[Running, dict[str, str]]]:
    """A unit, and the environment of a user whose ssh has the stanza, but for the way there."""
    there = workspace.path("home") / FILE
    there.write_text("1,2\n")
    there.chmod(0o666)
    access = Access("trainer.lab-a", USER, "trainer.lab-a.ssh.example.com", "localhost", 1337, host_key(keys))
    known = folder / "known_hosts"
    known.write_text(f"{access.known_hosts}\n")
    config = folder / "config"
    direct = {"ProxyCommand": "nc 127.0.0.1 2222"}
    config.write_text(access.stanza(identity=str(keys / USER), known_hosts=str(known), proxy=direct))
    env = users_folder(folder, bundle_content / "bundle/tools/rsync", "-F", str(config))
    with workspace.main("sleep", "600") as running:
        yield running, env


def host_key(keys: Path) -> str:
    """Give the unit's host key as an output has it."""
    return " ".join((keys / "host.pub").read_text().split()[:2])


@pytest.mark.parametrize("command", ENDING)
def test_a_command_of_the_guide(someone: tuple[Running, dict[str, str]], folder: Path, command: str) -> None:
    """It ends well and complains of nothing."""
    running, env = someone
    argv = running.argv("bash", "-c", command)
    done = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", HELD)
def test_a_forward_of_the_guide(someone: tuple[Running, dict[str, str]], folder: Path, command: str) -> None:
    """It opens the port that it names, and stays."""
    running, env = someone
    (port,) = re.findall(r"-[LD] (\d+)", command)
    with subprocess.Popen(running.argv("bash", "-c", f"exec {command}"), env=env, cwd=folder) as held:
        try:
            until(lambda: f":{port} " in running.in_network("ss", "-Hltn").stdout)
            assert held.poll() is None
        finally:
            held.kill()


def test_the_guide_has_commands() -> None:
    """The commands are found, so that the other tests try something."""
    assert len(COMMANDS) > 8
    assert len(HELD) == 2
