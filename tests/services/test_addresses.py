"""Servers known by name: their address is kept while name servers are away, and one that moved is followed."""

import contextlib
import os
import shutil
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from status.evidence import evidence
from tunnel import addresses as module
from tunnel.addresses import AGAIN_SECONDS, Addresses, address_of
from tunnel.wanted import Server
from typing_extensions import override

from tests.services.world import (
    ROOT,
    Authority,
    Echo,
    Frps,
    Process,
    Tunnel,
    claim,
    free_port,
    holds,
    mount,
    wait_for,
    wanted,
)
from tools.toolchain import ensure

NAME = "frps-0.gpu-runtime.svc"
SERVER = Server("frps-0", NAME, 7000)
HOST = claim().host
HOSTS_SECONDS = 6.0
"""Go believes a file of names for five: before, nothing would show whether a name is looked up."""

BANNER = b"SSH-2.0-echo\r\n"


def answers(*addresses: str) -> Any:
    """Stand for a name server that gives *addresses*, or for none."""

    def found(*_: object, **__: object) -> list[tuple[Any, ...]]:
        if not addresses:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        family = [socket.AF_INET6 if ":" in one else socket.AF_INET for one in addresses]
        return [(family[i], socket.SOCK_STREAM, 6, "", (one, 0)) for i, one in enumerate(addresses)]

    return found


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["10.43.0.9"], "10.43.0.9"),
        (["203.0.113.7", "203.0.113.8"], NAME),
        ([], None),
    ],
    ids=["one", "several", "none"],
)
def test_one_address_is_kept(monkeypatch: pytest.MonkeyPatch, given: list[str], found: str | None) -> None:
    """A name of one address becomes it; a name of several stays a name, so that frpc tries one after the other."""
    monkeypatch.setattr(socket, "getaddrinfo", answers(*given))
    assert address_of(SERVER) == found


@pytest.mark.parametrize(
    ("last", "open_ways", "found"),
    [
        (None, {"fd00::9", "10.43.0.9"}, "fd00::9"),
        (None, {"10.43.0.9"}, "10.43.0.9"),
        ("10.43.0.9", {"fd00::9", "10.43.0.9"}, "10.43.0.9"),
        ("10.43.0.9", {"fd00::9"}, "fd00::9"),
        ("10.43.0.9", set[str](), "10.43.0.9"),
        ("10.43.0.8", set[str](), "fd00::9"),
        (NAME, set[str](), "fd00::9"),
    ],
    ids=["both", "one", "both, last before", "the other", "none", "none, moved", "none, found late"],
)
def test_of_one_address_of_each_family_the_open_one_is_kept(
    monkeypatch: pytest.MonkeyPatch, last: str | None, open_ways: set[str], found: str
) -> None:
    """A family that is filtered is not kept, one that works is not left, and the name is no answer."""
    monkeypatch.setattr(socket, "getaddrinfo", answers("fd00::9", "10.43.0.9"))
    monkeypatch.setattr(module, "answers", lambda way, port: port == SERVER.port and way in open_ways)
    assert address_of(SERVER, last) == found


def test_who_answers() -> None:
    """Only where somebody listens is a way open."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert module.answers("127.0.0.1", port)
    assert not module.answers("127.0.0.1", port)


def test_the_last_answer_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name server the address that was found stays; a new one is taken once there is one again."""
    addresses, now = Addresses(), 0.0
    for given, stands in ((("10.43.0.9",), "10.43.0.9"), ((), "10.43.0.9"), (("10.43.0.10",), "10.43.0.10")):
        monkeypatch.setattr(socket, "getaddrinfo", answers(*given))
        addresses.due.clear()
        addresses.look(SERVER, now := now + AGAIN_SECONDS)
        wait_for(lambda: SERVER not in addresses.busy, "the look-up")
        assert addresses.of(SERVER) == stands


def test_a_name_that_was_never_found_is_left_to_frpc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own complaint tells more than ours could; an address is nobody's to look up."""
    monkeypatch.setattr(socket, "getaddrinfo", answers())
    addresses, fixed = Addresses(), replace(SERVER, address="2001:db8::7")
    assert addresses.of(SERVER) is None
    addresses.look(SERVER, 0.0)
    addresses.look(fixed, 0.0)
    assert wait_for(lambda: addresses.of(SERVER), "the look-up") == NAME
    assert addresses.of(fixed) == fixed.address


class Named(Tunnel):
    """A tunnel client that knows names from a file of its own."""

    @override
    def __post_init__(self) -> None:
        (self.folder / "hosts").write_text(f"127.0.0.1 {NAME}\n")
        places = ["--dir", f"{self.folder}/mount", "--state", f"{self.folder}/state"]
        program = ["--frpc", str(ensure("frpc")["frpc"]), "--local-port", str(self.sshd.port)]
        env = {"PYTHONPATH": str(ROOT / "services"), "PYTHONDONTWRITEBYTECODE": "1"}
        begin = f'mount --bind {self.folder}/hosts /etc/hosts && exec "$@"'
        unshare = [shutil.which("unshare") or "unshare", "--mount", "sh", "-c", begin, "sh"]
        argv = [*unshare, sys.executable, "-P", "-s", "-m", "tunnel", *places, *program]
        self.process = Process(argv, self.folder / "tunnel.log", {**env, "PATH": os.environ["PATH"]})

    def knows(self, line: str) -> None:
        """Know this and no other name from now on."""
        (self.folder / "hosts").write_text(line)  # the same file: it is mounted


class Way(socketserver.ThreadingTCPServer):
    """Stands in for a Service: leads from *address* to *frps*; once ended, connections that are open live on."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, frps: Frps, address: str, port: int) -> None:
        super().__init__((address, port), _WayHandler)
        self.target = ("127.0.0.1", frps.port)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def end(self) -> None:
        """Take no more connections."""
        self.shutdown()
        self.server_close()


class _WayHandler(socketserver.BaseRequestHandler):
    server: Way

    @override
    def handle(self) -> None:
        with contextlib.suppress(OSError), socket.create_connection(self.server.target) as there:
            threading.Thread(target=pump, args=(there, self.request), daemon=True).start()
            pump(self.request, there)


def pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes until either side ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def announced(server: Server, frps: Frps, authority: Authority, sshd: Echo, tmp_path: Path) -> Iterator[Named]:
    """Give a unit that is announced at *frps*, which it knows as *server*."""
    if os.geteuid():
        pytest.skip("a file of names is mounted as root")
    folder = tmp_path / "named"
    (folder / "mount").mkdir(parents=True)
    tunnel = Named(folder, sshd)
    try:
        mount(folder / "mount", wanted(server, authority, claim()))
        wait_for(lambda: frps.greeting(HOST) == BANNER, "the unit is reached")
        yield tunnel
    finally:
        tunnel.process.end()


@pytest.fixture
def named(frps: Frps, authority: Authority, sshd: Echo, tmp_path: Path) -> Iterator[Named]:
    """Give a unit that is announced at an frps which it knows by name."""
    with announced(replace(frps.server, address=NAME), frps, authority, sshd, tmp_path) as tunnel:
        yield tunnel


@pytest.fixture
def led(frps: Frps, authority: Authority, sshd: Echo, tmp_path: Path) -> Iterator[tuple[Named, Way]]:
    """Give a unit that is announced at an frps by a way that has a name, and the way."""
    way = Way(frps, "127.0.0.1", free_port())
    server = Server(frps.name, NAME, way.server_address[1])
    with announced(server, frps, authority, sshd, tmp_path) as tunnel:
        yield tunnel, way


def test_logins_go_on_without_a_name_server(named: Named, frps: Frps) -> None:
    """One after the other, each over a connection of its own, and also after the server was away."""
    named.knows("")
    time.sleep(HOSTS_SECONDS)
    for _ in range(5):
        assert wait_for(lambda: frps.greeting(HOST), "a login") == BANNER
    frps.process.end()
    frps.start()
    wait_for(lambda: frps.greeting(HOST) == BANNER, "a login after the server's return", 40)


def test_a_server_that_moved_is_found(named: Named, frps: Frps) -> None:
    """Its name has another address, and it is not reached at the one before: the client goes to the new one."""
    frps.process.end()
    named.knows(f"127.0.0.2 {NAME}\n")
    frps.start(bind="127.0.0.2")
    wait_for(lambda: frps.greeting(HOST) == BANNER, "the unit at the server's new address", 40)


def test_a_server_that_moved_under_a_live_connection_is_found(led: tuple[Named, Way], frps: Frps) -> None:
    """Its name leads elsewhere, and no session gets in though the client is logged in: it is replaced."""
    tunnel, way = led
    way.end()
    other = Way(frps, "127.0.0.2", way.server_address[1])
    tunnel.knows(f"127.0.0.2 {NAME}\n")
    try:
        wait_for(lambda: (frps.greeting(HOST), tunnel.process.events("ended"))[1], "the client is replaced", 40)
        assert [line["reason"] for line in tunnel.process.events("ended")] == ["its server has another address"]
        wait_for(lambda: frps.greeting(HOST) == BANNER, "a login at the server's new address")
        for _ in range(3):
            assert frps.greeting(HOST) == BANNER
    finally:
        other.end()


def test_a_server_that_takes_no_session_is_told_and_waited_for(led: tuple[Named, Way], frps: Frps) -> None:
    """Its address is the one before: sessions that run go on, the reason is told, logins return with the way."""
    tunnel, way = led
    _, session = frps.open(HOST)
    with session, session.makefile("rb") as lines:
        assert lines.readline() == BANNER
        way.end()

        def told() -> bool:
            frps.greeting(HOST)
            links = evidence(tunnel.process.text.splitlines()).links
            return [(link.state, "connection refused" in link.reason) for link in links] == [("down", True)]

        wait_for(told, "no session gets through", 40)
        holds(lambda: not tunnel.process.events("ended"), "the client stays", AGAIN_SECONDS + 2)
        session.sendall(b"still here\n")
        assert lines.readline() == b"still here\n"
        again = Way(frps, "127.0.0.1", way.server_address[1])
        try:
            wait_for(lambda: frps.greeting(HOST) == BANNER, "a login by the way that is back")
        finally:
            again.end()
    assert not tunnel.process.events("ended")
