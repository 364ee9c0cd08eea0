"""What the tunnel client says of its links, with the pinned frps and frpc, read as `make status` reads it."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from status.evidence import Evidence, evidence
from tunnel.frpc import CUT_OFF_SECONDS, Program, complaint_of
from tunnel.sshd import unanswered
from tunnel.supervisor import SAY_SECONDS, Supervisor
from tunnel.wanted import Server, Wanted

from tests.services.world import Authority, Echo, Frps, Tunnel, claim, free_port, mount, wait_for, wanted
from tools.toolchain import ensure

StartTunnel = Callable[..., Tunnel]


@pytest.fixture
def tunnels(tmp_path: Path) -> Iterator[StartTunnel]:
    """Start supervisors that end with the test."""
    with ExitStack() as stack:

        def begin(said: Wanted, sshd: Echo) -> Tunnel:
            folder = tmp_path / "unit"
            (folder / "mount").mkdir(parents=True)
            tunnel = Tunnel(folder, sshd)
            stack.callback(tunnel.process.end)
            tunnel.mount(said)
            return tunnel

        yield begin


def read(tunnel: Tunnel) -> Evidence:
    """Read the log as `make status` does."""
    return evidence(tunnel.process.text.splitlines())


def wait_for_state(tunnel: Tunnel, state: str, reason: str) -> None:
    """Wait until the only server's newest word is *state*, with *reason* in it."""

    def is_so() -> bool:
        return [(link.state, reason in link.reason) for link in read(tunnel).links] == [(state, True)]

    wait_for(is_so, f"{state} ({reason}): {read(tunnel)}")


def test_a_login_is_told(frps: Frps, authority: Authority, tunnels: StartTunnel, sshd: Echo) -> None:
    """Announced is said when a login gets through; a server that goes is told with frpc's own words."""
    tunnel = tunnels(wanted(frps.server, authority, claim()), sshd)
    wait_for_state(tunnel, "announced", "")
    assert read(tunnel).host == claim().host
    assert frps.greeting(claim().host) == sshd.banner
    frps.process.end()
    wait_for_state(tunnel, "down", "connect to server error")
    frps.start()
    wait_for_state(tunnel, "announced", "")


def test_a_login_that_frps_refuses_is_told(frps: Frps, authority: Authority, tunnels: StartTunnel, sshd: Echo) -> None:
    """A wrong token is told in frps' words, and no secret with it."""
    said = wanted(frps.server, authority, claim())
    tunnel = tunnels(replace(said, access=replace(said.access, token="another-token-of-this-test")), sshd)
    wait_for_state(tunnel, "down", "token")
    assert "another-token-of-this-test" not in tunnel.process.text


def test_a_server_that_is_not_there_is_told(authority: Authority, tunnels: StartTunnel, sshd: Echo) -> None:
    """Where nothing listens, the reason says so."""
    tunnel = tunnels(wanted(Server("frps-0", "127.0.0.1", free_port()), authority, claim()), sshd)
    wait_for_state(tunnel, "down", "connection refused")


def test_what_is_no_sshd_is_told(frps: Frps, authority: Authority, tunnels: StartTunnel) -> None:
    """A port that answers and is no SSH server is not announced, and its first words are told."""
    other = Echo(banner=b"220 mail\r\n")
    try:
        tunnel = tunnels(wanted(frps.server, authority, claim()), other)
        wait_for_state(tunnel, "down", "220 mail")
        assert b" 404 " in frps.status(claim().host)
    finally:
        other.end()


def test_a_server_that_is_no_longer_wanted_is_no_matter(
    frps: Frps, authority: Authority, tunnels: StartTunnel, sshd: Echo
) -> None:
    """What was said of a server counts while it is on the list."""
    said = wanted(frps.server, authority, claim())
    tunnel = tunnels(replace(said, servers=(frps.server, Server("frps-1", "127.0.0.1", free_port()))), sshd)
    wait_for(lambda: len(read(tunnel).links) == 2, "both are told")
    assert not read(tunnel).whole
    tunnel.mount(said)
    wait_for(lambda: read(tunnel).whole, "one is told")


@pytest.fixture
def supervisor(tmp_path: Path, frps: Frps, authority: Authority, sshd: Echo) -> Iterator[Supervisor]:
    """Give a supervisor whose clock is the test's."""
    mount(tmp_path / "mount", wanted(frps.server, authority, claim()))
    program = Program(Path(ensure("frpc")["frpc"]), tmp_path / "state", sshd.port)
    stop = threading.Event()
    made = Supervisor(tmp_path / "mount", program, stop)
    yield made
    stop.set()
    made.run()


def words(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Give the states that were said since the last time."""
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line["state"] for line in said if line["event"] == "link"]


def test_what_does_not_change_is_said_again(supervisor: Supervisor, capsys: pytest.CaptureFixture[str]) -> None:
    """A state is said once when it comes, and once a minute at least while it stays."""
    now, states = 0.0, list[str]()

    def announced() -> bool:
        nonlocal now
        supervisor.round(now := now + 0.01)
        states.extend(words(capsys))
        return "announced" in states

    wait_for(announced, "the host is announced")
    assert states.count("announced") == 1
    for later in (0.1, SAY_SECONDS / 2):
        supervisor.round(now + later)
    assert words(capsys) == []
    supervisor.round(now + SAY_SECONDS)
    assert words(capsys) == ["announced"]
    assert SAY_SECONDS < 60


def until_announced(supervisor: Supervisor, capsys: pytest.CaptureFixture[str]) -> float:
    """Let rounds pass until the host is announced; give when that was."""
    now = 0.0

    def announced() -> bool:
        nonlocal now
        supervisor.round(now := now + 0.01)
        return "announced" in words(capsys)

    wait_for(announced, "the host is announced")
    return now


def test_an_sshd_that_greets_no_more_is_told(
    supervisor: Supervisor, sshd: Echo, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before frpc has noticed, the next look says that no login works."""
    now = until_announced(supervisor, capsys)
    sshd.end()
    supervisor.round(now + SAY_SECONDS)
    assert words(capsys) == ["idle"]


def test_a_server_that_takes_no_session_is_told(supervisor: Supervisor, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not announced for as long as frpc's warning counts, and then again without another word of frpc."""
    now = until_announced(supervisor, capsys)
    (frpc,) = supervisor.running.values()
    frpc.hear("2026-01-01 00:00:00.000 [W] [client/control.go:119] start new connection to server error: EOF", now)
    supervisor.round(now)
    assert words(capsys) == ["down"]
    supervisor.round(now + CUT_OFF_SECONDS)
    assert words(capsys) == ["announced"]


def test_files_that_are_not_there_are_told(tmp_path: Path) -> None:
    """A unit without its tunnel's files has no links, and says why, again and again."""
    stop = threading.Event()
    program = Program(tmp_path / "frpc", tmp_path / "state", free_port())
    made = Supervisor(tmp_path, program, stop)
    made.round(0.0)
    assert "tunnel.json" in made.complaints["waiting-for-files"][0]
    assert made.complaints["waiting-for-files"][1] == SAY_SECONDS


def test_who_greets() -> None:
    """Only a server that says SSH is one."""
    echo = Echo()
    try:
        assert unanswered(echo.port) == ""
    finally:
        echo.end()
    assert "nothing answers" in unanswered(echo.port)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "2026-01-01 00:00:00.000 [W] [client/service.go:300] connect to server error: EOF",
            "connect to server error: EOF",
        ),
        ("2026-01-01 00:00:00.000 [E] [client/control.go:1] [0123abcd] bad", "bad"),
        ("2026-01-01 00:00:00.000 [W] [client/control.go:1] [0123abcd-4567] bad", "bad"),
        ("2026-01-01 00:00:00.000 [W] [client/control.go:1] [0123abcd-4567] [a.b.test] bad", "[a.b.test] bad"),
        ("2026-01-01 00:00:00.000 [I] [client/service.go:300] [0123abcd] login to server success", ""),
        ("panic", ""),
    ],
)
def test_complaints_of_frpc(line: str, message: str) -> None:
    """Warnings and errors are kept without time and place; nothing else is one."""
    assert complaint_of(line) == message
