"""Forwarding: what clients may open towards the unit, and that nothing leads from the unit to the client unasked."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.forwards import READ, SERVER
from tests.images.containers import HOME, PATIENCE, Client, Pod, Running, until


@contextmanager
def serving(client: Client, where: str) -> Iterator[None]:
    """Have a server in the unit, started over SSH, that says who it is."""
    with client.kept("python3", "-u", "-c", f"'{SERVER}'", where) as session:
        assert session.stdout
        assert session.stdout.readline() == b"ready\n"
        yield


def read(running: Running, *where: str | Path) -> str:
    """Say what a server says, tried until something listens."""

    def attempt() -> subprocess.CompletedProcess[str] | None:
        done = running.in_network(sys.executable, "-c", READ, *where)
        return None if "refused" in done.stderr or "No such file" in done.stderr else done

    done = until(attempt)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def running(workspace: Pod) -> Iterator[Running]:
    """A unit on a Debian."""
    with workspace.main("sleep", "600") as running:
        yield running


def test_ports_of_the_unit(running: Running, keys: Path) -> None:
    """-L, -D and -W reach what listens on the unit's loopback."""
    client = Client(keys, running)
    with serving(client, "4242"):
        with client.kept("-N", options=("-L", "5001:127.0.0.1:4242", "-D", "5002")):
            assert read(running, "5001") == "of the unit"
            assert read(running, "5002", "4242") == "of the unit"
        through = running.in_network(
            "ssh", *client.options, "-p", "2222", "-W", "127.0.0.1:4242", client.there, stdin=""
        )
        assert through.stdout == "of the unit"


def test_sockets_of_the_unit(running: Running, keys: Path, tmp_path: Path) -> None:
    """-L of a local socket or port to a socket in the unit: editors' servers listen on one."""
    client = Client(keys, running)
    here = tmp_path / "here.sock"
    with serving(client, f"{HOME}/there.sock"):
        forwards = ("-L", f"{here}:{HOME}/there.sock", "-L", f"5001:{HOME}/there.sock")
        with client.kept("-N", options=forwards):
            assert read(running, here) == read(running, "5001") == "of the unit"


def test_one_connection_carries_many_sessions(running: Running, keys: Path, tmp_path: Path) -> None:
    """ControlMaster: sessions and forwards join a connection that is open; more than sshd's usual ten at once."""
    client = Client(keys, running)
    socket = ("-o", f"ControlPath={tmp_path / 'master'}")
    with client.kept("-N", options=("-M", *socket)):
        until((tmp_path / "master").exists)
        argv = running.argv("ssh", *client.options, *socket, "-p", "2222", client.there, "cat; echo $SSH_CONNECTION")
        pipe = subprocess.PIPE
        many = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) for _ in range(12)]
        said = {session.communicate("", timeout=PATIENCE)[0] for session in many}
    assert len(said) == 1
    assert [session.returncode for session in many] == [0] * 12


def test_an_agent_is_lent(running: Running, keys: Path, tmp_path: Path) -> None:
    """-A: the client's agent answers in the session; git in a unit needs no key of its own there."""
    agent = tmp_path / "agent"
    identities = "import os, socket; s = socket.socket(socket.AF_UNIX); s.connect(os.environ['SSH_AUTH_SOCK'])"
    ask = f"{identities}; s.sendall(bytes([0, 0, 0, 1, 11])); print(s.recv(5)[4])"
    with subprocess.Popen(["ssh-agent", "-D", "-a", agent], stdout=subprocess.DEVNULL) as lent:
        try:
            until(agent.exists)
            client = Client(keys, running)
            ssh = ("ssh", *client.options, "-A", "-p", "2222", client.there, f'python3 -c "{ask}"')
            done = running.in_network("env", f"SSH_AUTH_SOCK={agent}", *ssh)
        finally:
            lent.kill()
    assert done.stdout.strip() == "12", done.stderr  # SSH_AGENT_IDENTITIES_ANSWER


def test_nothing_leads_back_to_the_client(running: Running, keys: Path) -> None:
    """-R is refused, for ports as for sockets: it would let the unit into the client's network, past the walls."""
    for forward in ("5003:127.0.0.1:9", f"{HOME}/back.sock:127.0.0.1:9"):
        done = Client(keys, running).ssh("true", options=("-o", "ExitOnForwardFailure=yes", "-R", forward))
        assert done.returncode == 255
        assert "remote port forwarding failed" in done.stderr


def test_the_stack_may_allow_it_without_a_restart(workspace: Pod, running: Running, keys: Path) -> None:
    """With the stack's word in the mounted file -R works, on the unit's loopback alone; open sessions stay."""
    client = Client(keys, running)
    ask = ("-o", "ExitOnForwardFailure=yes", "-R")
    with client.kept("cat") as before:
        (workspace.path("keys") / "forwarding").write_text("all\n")
        until(lambda: client.ssh("true", options=(*ask, "5003:127.0.0.1:9")).returncode == 0)
        with client.kept("-N", options=(*ask, "0.0.0.0:5004:127.0.0.1:9")):
            until(lambda: "5004" in running.in_network("ss", "-Hltn").stdout)
            assert "127.0.0.1:5004" in running.in_network("ss", "-Hltn").stdout
        out, _ = before.communicate(b"still here", timeout=PATIENCE)
    assert out == b"still here"


def test_no_tunnels_and_no_x11(running: Running, keys: Path) -> None:
    """Network devices and X11 stay off."""
    client = Client(keys, running)
    assert client.ssh("echo ${DISPLAY:-none}", options=("-X",)).stdout.strip() == "none"
    done = client.ssh("true", options=("-w", "0:0", "-o", "ExitOnForwardFailure=yes"))
    assert done.returncode == 255
