"""The door of a tunnel server: the image's own HAProxy before the pinned frps, with real tunnels behind."""

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from components.entrance_config import HEADER_SECONDS, LimitsSpec
from tests.services.doors import Entrance, thrown, unpack_root
from tests.services.world import Authority, Echo, Frps, Gate, Tunnel, claim, wait_for, wanted
from tools.images.build import part_files
from tools.images.recipes import ENTRANCE_ROOT

BANNER = b"SSH-2.0-echo\r\n"
HOST = claim().host
CONNECT = f"CONNECT {HOST}:22 HTTP/1.1\r\nHost: {HOST}:22\r\n\r\n".encode()

Open = Callable[..., Entrance]


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the file system of the entrance's image."""
    if os.geteuid():
        pytest.skip("the image's file system is entered as root")
    return unpack_root(part_files(ENTRANCE_ROOT) / "root.tar", tmp_path_factory.mktemp("entrance"))


@pytest.fixture
def entrance_to(root: Path, frps: Frps, authority: Authority, sshd: Echo, tmp_path: Path) -> Iterator[Open]:
    """Start entrances before an frps through which the unit trainer is reached."""
    with ExitStack() as stack:
        (tmp_path / "unit" / "mount").mkdir(parents=True)
        tunnel = Tunnel(tmp_path / "unit", sshd)
        stack.callback(tunnel.process.end)
        tunnel.mount(wanted(frps.server, authority, claim()))
        wait_for(lambda: frps.greeting(HOST) == BANNER, "the unit is reached")

        def begin(drain: int = 60, **limits: int) -> Entrance:
            made = Entrance(root, frps, LimitsSpec.model_validate(limits), drain)
            stack.callback(made.process.end, signal.SIGKILL)
            return made

        yield begin


@pytest.fixture
def entrance(entrance_to: Open) -> Entrance:
    """Give an entrance with its defaults."""
    return entrance_to()


def session(entrance: Entrance, source: str = "127.0.0.1", version: str = "1.1") -> socket.socket:
    """Open a session and read the banner."""
    status, connection = entrance.open(HOST, source, version)
    assert b" 200 " in status
    connection.settimeout(10)
    assert connection.recv(len(BANNER), socket.MSG_WAITALL) == BANNER
    return connection


def alive(connection: socket.socket) -> bool:
    """Tell whether what is sent comes back."""
    connection.sendall(b"ping")
    return connection.recv(100) == b"ping"


def lines(entrance: Entrance, event: str) -> list[dict[str, Any]]:
    """Return the lines of one event; every line of the log is JSON."""
    said = [json.loads(line) for line in entrance.process.text.splitlines() if line.startswith("{")]
    return [line for line in said if line["event"] == event]


def test_sessions_pass_and_are_told(entrance: Entrance, gate: Gate) -> None:
    """A session has a line when it begins and one when it ends: who, where to, how much; frps' name for it joins them.

    The gate, which sees no client, says that name too.
    """
    with session(entrance) as connection:
        client = "{}:{}".format(*connection.getsockname())
        assert alive(connection)
        (began,) = wait_for(lambda: lines(entrance, "session"), "a line at the begin")
        assert lines(entrance, "end") == []
    (ended,) = wait_for(lambda: lines(entrance, "end"), "a line at the end")

    assert (began["host"], began["client"]) == (ended["host"], ended["client"]) == (HOST, client)
    assert began["frps"] == ended["frps"] == gate.process.events("session")[-1]["client"]
    assert (ended["status"], ended["up"] > 4, ended["down"] > len(BANNER)) == (200, True, True)
    assert began["time"][:16] <= ended["time"][:16]
    assert "[info]" not in entrance.process.text


def test_bytes_behind_the_header_arrive(entrance: Entrance, frps: Frps) -> None:
    """What a client sends right behind its CONNECT reaches the unit, although frps itself would lose it."""
    assert entrance.ask(CONNECT + b"at once", rest=2).endswith(BANNER + b"at once")
    with socket.create_connection(("127.0.0.1", frps.connect_port), 5) as bare:
        bare.sendall(CONNECT + b"at once")
        bare.settimeout(2)
        got = b""
        with contextlib.suppress(TimeoutError):
            while data := bare.recv(4096):
                got += data
    assert not got.endswith(b"at once")


@pytest.mark.parametrize(
    "head",
    [
        f"CONNECT {HOST}:22 HTTP/1.0\r\n\r\n",
        f"CONNECT {HOST} HTTP/1.1\r\nHost: {HOST}\r\n\r\n",
        f"CONNECT {HOST.upper()}:22 HTTP/1.1\r\nHost: {HOST}\r\n\r\n",
        f"CONNECT {HOST}:22 HTTP/1.0\r\nHost: ssh.example.com\r\nProxy-Connection: Keep-Alive\r\n\r\n",
        f"CONNECT {HOST}:22 HTTP/1.1\r\nHost: {HOST}:22\r\nProxy-Authorization: Basic eDp5\r\n\r\n",
    ],
    ids=["nc, socat, ncat", "no port", "upper case", "proxytunnel", "a password"],
)
def test_every_client_gets_in(entrance: Entrance, head: str) -> None:
    """However a client words its CONNECT, it gets in."""
    assert entrance.ask(head.encode(), rest=1).endswith(BANNER)


GARBAGE = {
    "another method": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b" 405 "),
    "ssh": (b"SSH-2.0-OpenSSH_9.2\r\n", b" 400 "),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64, b" 400 "),
    "noise": (bytes(range(1, 256)) * 16 + b"\r\n\r\n", b" 400 "),
    "a user": (f"CONNECT root@{HOST}:22 HTTP/1.1\r\nHost: {HOST}:22\r\n\r\n".encode(), b" 400 "),
    "an escape": (f"CONNECT {HOST}%2e:22 HTTP/1.1\r\n\r\n".encode(), b" 400 "),
    "a long host": (b"CONNECT " + b"a" * 300 + b".example.com:22 HTTP/1.1\r\n\r\n", b" 400 "),
    "a long header": (f"CONNECT {HOST}:22 HTTP/1.1\r\nX: ".encode() + b"a" * 20_000 + b"\r\n\r\n", b" 400 "),
    "many headers": (f"CONNECT {HOST}:22 HTTP/1.1\r\n".encode() + b"X: y\r\n" * 3_000 + b"\r\n", b" 400 "),
    "quotes": (b'CONNECT "}\n:22 HTTP/1.1\r\n\r\n', b" 400 "),
    "an unknown host": (b"CONNECT nobody.lab-a.ssh.example.test:22 HTTP/1.1\r\n\r\n", b" 404 "),
    "frps itself": (b"CONNECT 127.0.0.1:7500 HTTP/1.1\r\n\r\n", b" 404 "),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused(entrance: Entrance, name: str) -> None:
    """What is no CONNECT to a host is refused at once, never reaches frps, and leaves the door and its log whole."""
    said, status = GARBAGE[name]
    assert status in entrance.ask(said, rest=2).split(b"\r\n")[0]
    with session(entrance) as connection:
        assert alive(connection)
    wait_for(lambda: lines(entrance, "end"), "every line is JSON")


@pytest.mark.parametrize("piece", [b"", b"C"], ids=["silent", "a byte at a time"])
def test_slow_headers_end(entrance: Entrance, piece: bytes) -> None:
    """Who does not say CONNECT in time is ended, however it dribbles."""
    began = time.monotonic()
    with entrance.connect() as connection:
        connection.settimeout(0.5)
        while time.monotonic() - began < HEADER_SECONDS * 4:
            try:
                connection.sendall(piece)
                connection.recv(4096)
                break
            except TimeoutError:
                continue
            except OSError:
                break
    assert time.monotonic() - began < HEADER_SECONDS * 3


def test_one_source_has_its_limit(entrance_to: Open) -> None:
    """Above its limit a source is told 429, far above it is closed unread; others get in, and it does again later."""
    entrance = entrance_to(per_source=4)
    held = [session(entrance) for _ in range(4)]
    assert b" 429 " in entrance.status(HOST)
    silent: list[socket.socket] = []

    def closed_unread() -> bool:
        silent.append(entrance.connect())  # two that come at once may count each other, and both be closed
        return entrance.status(HOST) == b""

    wait_for(closed_unread, "it closes what is far above the limit")
    with session(entrance, "127.0.0.2") as other:
        assert alive(other)
    for connection in (*held, *silent):
        connection.close()
    wait_for(lambda: b" 200 " in entrance.status(HOST), "the source gets in again")


def test_one_unit_has_its_limit(entrance_to: Open) -> None:
    """A unit takes so many sessions and no more, from however many sources and in whatever spelling."""
    entrance = entrance_to(per_unit=3)
    held = [session(entrance, f"127.0.0.{number + 1}") for number in range(3)]
    assert b" 429 " in entrance.status(HOST, "127.0.0.9")
    assert b" 429 " in entrance.status(HOST.upper(), "127.0.0.9")
    held[0].close()
    wait_for(lambda: b" 200 " in entrance.status(HOST, "127.0.0.9"), "there is room again")
    for connection in held:
        connection.close()


FLOOD = 3000


@pytest.mark.parametrize("said", [b"", b"CONNECT ", CONNECT], ids=["silent", "half a header", "sessions"])
def test_an_honest_session_gets_in_among_thousands(entrance_to: Open, said: bytes) -> None:
    """While thousands of connections are held from one source, a session from another works; memory is bounded."""
    entrance = entrance_to()
    with session(entrance, "127.0.0.2") as before, thrown(entrance, FLOOD, said, sources=1):
        with session(entrance, "127.0.0.2") as during:
            assert alive(during)
        assert alive(before)
        assert entrance.healthy()
        assert entrance.memory < 128 * 2**20


def test_a_flood_from_everywhere_passes(entrance_to: Open) -> None:
    """Connections from hundreds of sources that say nothing fill the house; they go, and an honest session gets in."""
    entrance = entrance_to(total=1000)
    with thrown(entrance, FLOOD, b"CONNECT ", sources=500):
        assert entrance.healthy()
        with session(entrance, "127.0.0.2") as during:
            assert alive(during)
        assert entrance.memory < 128 * 2**20


def test_it_drains(entrance: Entrance) -> None:
    """At its end it takes no new session, and carries the ones that it has until the last is done."""
    with session(entrance) as connection:
        entrance.process.popen.send_signal(signal.SIGUSR1)
        wait_for(lambda: not entrance.healthy(), "it listens no more")
        assert alive(connection)
        time.sleep(1)
        assert alive(connection)
        assert entrance.process.popen.poll() is None
    assert entrance.process.popen.wait(20) == 0


def test_a_drain_has_an_end(entrance_to: Open) -> None:
    """A session that never ends holds it up for as long as was said, and no longer."""
    entrance = entrance_to(drain=2)
    with session(entrance) as connection:
        entrance.process.popen.send_signal(signal.SIGUSR1)
        entrance.process.popen.wait(40)
        connection.settimeout(5)
        assert connection.recv(10) == b""


def test_without_frps_it_says_so(entrance: Entrance, frps: Frps) -> None:
    """While frps is away a client is told 503 at once; when it is back, clients get in without a restart of ours."""
    frps.process.end(signal.SIGKILL)
    assert b" 503 " in entrance.status(HOST)
    frps.start()
    wait_for(lambda: b" 200 " in entrance.status(HOST), "the unit is reached again")
