"""Landing modes on a real cluster, through the tunnel, with the stanza that users are handed and nothing else."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import made, on_a_fresh_rig
from e2e.user import Someone, first_line, held, read, someone
from e2e.world import World, attempt, wait_until
from tests.editors import BACKENDS, ECHO, INSTALL, archive, port_in, upload
from tests.editors import SERVER as EDITORS_SERVER
from tests.forwards import READ, SERVER
from tests.guide import ENDING, FILE, HELD, users_folder
from tests.services.world import free_port
from tools.images.build import part_files
from tools.images.recipes import RSYNC

pytestmark = pytest.mark.e2e

UNITS = ("plain", "own", "beside")

COPIES = [command for command in ENDING if FILE in command]
"""Commands of the guide that work in every mode."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a stack with a unit of each mode, up."""
    with on_a_fresh_rig(tmp_path_factory.mktemp("landing"), "landing") as bare:
        yield made(bare)


@pytest.fixture(scope="module")
def users(world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Someone]:
    """Give a user for each unit."""
    return {name: someone(world, name, tmp_path_factory.mktemp(name)) for name in UNITS}


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


@pytest.mark.parametrize(("name", "commands"), [("plain", ENDING), ("own", COPIES), ("beside", COPIES)], ids=UNITS)
def test_the_commands_of_the_guide(users: dict[str, Someone], name: str, commands: list[str], tmp_path: Path) -> None:
    """Each runs as it stands in docs/ssh.md, in its order: copies of every kind, a terminal, a lent agent."""
    user, agent = users[name], tmp_path / "agent"
    env = users_folder(tmp_path, part_files(RSYNC) / "rsync", *user.options) | {"SSH_AUTH_SOCK": str(agent)}
    with held(["ssh-agent", "-D", "-a", str(agent)]):
        wait_until(agent.exists, "the agent")
        for command in commands:
            argv = ["bash", "-c", command.replace("trainer.lab-a", user.unit)]
            done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, f"{command}: {done.stderr}"
            assert "no agent" not in done.stdout
    assert (tmp_path / "copy.csv").read_text() == (tmp_path / FILE).read_text()
    assert user.ssh(f"cat synced/{FILE} uploaded.csv") == "1,2\n1,2"


def test_the_forwards_of_the_guide(users: dict[str, Someone], tmp_path: Path) -> None:
    """-L and -D, but for the port on this machine, reach what listens in the unit."""
    alice = users["plain"]
    env = users_folder(tmp_path, part_files(RSYNC) / "rsync", *alice.options)
    with alice.held(alice.unit, shlex.join(["python3", "-u", "-c", SERVER, "8888"])) as server:
        assert first_line(server) == "ready"
        for command in HELD:
            here = free_port()
            moved = re.sub(r"(-[LD]) \d+", rf"\1 {here}", command.replace("trainer.lab-a", alice.unit))
            with held(["bash", "-c", f"exec {moved}"], env=env, cwd=tmp_path):
                assert read(here, *((8888,) if " -D " in command else ())) == "of the unit"


def test_one_connection_carries_many_sessions(users: dict[str, Someone], tmp_path: Path) -> None:
    """ControlMaster: what joins an open connection asks the entrance for no other."""
    alice = users["plain"]
    path = ("-o", f"ControlPath={tmp_path / 'master'}")
    with alice.held("-N", "-M", *path, alice.unit):
        wait_until((tmp_path / "master").exists, "the first connection")
        said = {alice.run("ssh", *path, alice.unit, "echo $SSH_CONNECTION").stdout for _ in range(3)}
        copied = alice.run("scp", *path, __file__, f"{alice.unit}:joined")
    assert len(said) == 1
    assert said != {""}
    assert copied.returncode == 0, copied.stderr


def test_vs_code(users: dict[str, Someone], tmp_path: Path) -> None:
    """A server is copied, started by a piped script, and reached through SOCKS and a forward of later sessions."""
    alice = users["plain"]
    alice.ssh("mkdir -p ~/.vscode-server")
    assert alice.run("scp", str(archive(tmp_path)), f"{alice.unit}:.vscode-server/").returncode == 0
    first = alice.run("ssh", "-T", alice.unit, "bash", input=INSTALL)
    port, socks, here = int(port_in(first.stdout)), free_port(), free_port()
    with alice.held("-T", "-D", str(socks), alice.unit, f'exec python3 -c "{ECHO}"') as session:
        assert first_line(session) == "ready"
        assert session.stdin
        for word in ("one", "two"):
            session.stdin.write(f"{word}\n")
            session.stdin.flush()
            assert first_line(session) == word.upper()
        assert read(socks, port) == "offline"
    with alice.held("-N", "-L", f"{here}:127.0.0.1:{port}", alice.unit):
        assert read(here) == "offline"


def test_jetbrains_and_neovim(users: dict[str, Someone], tmp_path: Path) -> None:
    """A backend is uploaded by sftp, runs as a long command and is reached meanwhile; bytes of every value pass."""
    alice, backend, here = users["plain"], tmp_path / "backend.py", free_port()
    backend.write_text(EDITORS_SERVER)
    uploaded = alice.run("sftp", "-b", "-", alice.unit, input=upload(backend))
    assert "-rwxr-xr-x" in uploaded.stdout, uploaded.stderr
    with alice.held(alice.unit, f"python3 -u {BACKENDS}/backend.py") as running:
        port = port_in(first_line(running))
        with alice.held("-N", "-L", f"{here}:127.0.0.1:{port}", alice.unit):
            assert read(here) == "offline"
        direct = alice.run("ssh", "-W", f"127.0.0.1:{port}", alice.unit, stdin=subprocess.DEVNULL)
        assert direct.stdout == "offline"

    every = bytes(range(256)) * 64
    argv = ["ssh", *alice.options, "-T", alice.unit, "cat"]
    assert subprocess.run(argv, input=every, capture_output=True, check=True, timeout=60).stdout == every


def test_a_stack_may_let_forwards_lead_out(world: World, users: dict[str, Someone]) -> None:
    """With `remoteForwarding` an `up` is enough: -R then leads from a unit that was there before to this machine."""
    alice, here = users["plain"], free_port()
    ask = ("-o", "ExitOnForwardFailure=yes", "-R", f"5003:127.0.0.1:{here}")
    with world.changed(lambda config: config["gpu-runtime:platform"]["ssh"].update(remoteForwarding=True)):
        status, said = attempt(world.engine(), "up", "--yes", "--skip-preview")
    assert status == 0, said
    with held([sys.executable, "-u", "-c", SERVER, str(here)]) as server:
        assert first_line(server) == "ready"
        read_back = (*ask, alice.unit, shlex.join(["python3", "-c", READ, "5003"]))
        wait_until(lambda: alice.run("ssh", *read_back).stdout.strip() == "of the unit", "-R to lead here")
