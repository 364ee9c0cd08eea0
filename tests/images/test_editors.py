"""What editors do over SSH, step by step, with OpenSSH's own clients: VS Code Remote-SSH, JetBrains Gateway, Neovim."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors import BACKENDS, ECHO, INSTALL, SERVER, archive, port_in, upload
from tests.images.containers import HOME, PATIENCE, Client, Pod, Running, until
from tests.images.test_forwarding import read


@pytest.fixture
def running(workspace: Pod) -> Iterator[Running]:
    """A unit on a Debian, with a variable of its own."""
    workspace.env["WANDB_MODE"] = "offline"
    with workspace.main("sleep", "600") as running:
        yield running


def test_vs_code(running: Running, keys: Path, tmp_path: Path) -> None:
    """A server is copied, unpacked and started by a piped script, and outlives the session.

    It is then reached through the SOCKS port of a later session, which runs the same script and finds it there, and
    through a forwarded port of a third connection.
    """
    client = Client(keys, running)
    client.ssh("mkdir -p ~/.vscode-server")
    copied = client.scp(archive(tmp_path), f"{client.there}:.vscode-server/")
    assert copied.returncode == 0, copied.stderr
    first = client.fed(INSTALL, "bash", options=("-T",))
    assert first.stdout.splitlines()[-1] == "8f2c: end", first.stderr
    port = port_in(first.stdout)

    with client.kept("bash", options=("-T", "-D", "5001", "-o", "ConnectTimeout=15")) as session:
        assert session.stdin
        session.stdin.write(INSTALL.encode())
        session.stdin.flush()
        assert read(running, "5001", port) == "offline"
        out, _ = session.communicate(timeout=PATIENCE)
    assert port_in(out.decode()) == port
    with client.kept("-N", options=("-L", f"5002:127.0.0.1:{port}")):
        assert read(running, "5002") == "offline"


def test_an_exec_server_on_standard_streams(running: Running, keys: Path) -> None:
    """VS Code's newer way: one session whose shell becomes a server that is spoken to, unbuffered, for hours."""
    with Client(keys, running).kept("sh", options=("-T", "-D", "5001")) as session:
        assert session.stdin
        assert session.stdout
        session.stdin.write(f'exec python3 -c "{ECHO}"\n'.encode())
        session.stdin.flush()
        assert session.stdout.readline() == b"ready\n"
        for word in (b"one", b"two"):
            session.stdin.write(word + b"\n")
            session.stdin.flush()
            assert session.stdout.readline() == word.upper() + b"\n"


def test_jetbrains_gateway(running: Running, keys: Path, tmp_path: Path) -> None:
    """The backend is uploaded by sftp and checked, runs as a long command, and is reached by -L and -W meanwhile."""
    client = Client(keys, running)
    (tmp_path / "backend.py").write_text(SERVER)
    uploaded = client.sftp(upload(tmp_path / "backend.py"))
    assert "-rwxr-xr-x" in uploaded.stdout, uploaded.stderr
    facts = client.ssh("uname -m; nproc; echo $HOME; test -w /tmp && echo writable")
    assert facts.stdout.splitlines()[-2:] == [HOME, "writable"]

    with client.kept("python3", "-u", f"{BACKENDS}/backend.py") as backend:
        assert backend.stdout
        port = port_in(backend.stdout.readline().decode())
        with client.kept("-N", options=("-L", f"5001:127.0.0.1:{port}", "-o", "ServerAliveInterval=5")):
            assert read(running, "5001") == "offline"
        direct = running.in_network("ssh", *client.options, "-p", "2222", "-W", f"127.0.0.1:{port}", client.there)
        assert direct.stdout == "offline"
        assert backend.poll() is None


def test_neovim(running: Running, keys: Path, tmp_path: Path) -> None:
    """Files are read and written by scp, and an embedded editor is spoken to in bytes of every value, both ways."""
    client = Client(keys, running)
    here = tmp_path / "train.py"
    here.write_text("print('λ')\n")
    assert client.scp(here, f"{client.there}:train.py").returncode == 0
    assert client.scp(f"{client.there}:train.py", tmp_path / "back.py").returncode == 0
    assert (tmp_path / "back.py").read_text() == here.read_text()

    every = bytes(range(256)) * 64
    argv = running.argv("ssh", *client.options, "-T", "-p", "2222", client.there, "cat")
    done = subprocess.run(argv, input=every, capture_output=True, check=True, timeout=PATIENCE)
    assert done.stdout == every


def test_what_a_server_leaves_is_there_for_the_next_editor(workspace: Pod, running: Running, keys: Path) -> None:
    """A daemon that left its session stays until it is ended, whoever disconnects."""
    client = Client(keys, running)
    client.ssh("nohup setsid sh -c 'while sleep 0.1; do date +%s%N > ~/alive; done' > /dev/null 2>&1 < /dev/null &")
    alive = workspace.path("home") / "alive"
    until(alive.exists)
    before = alive.read_text()
    until(lambda: alive.read_text() not in ("", before))
