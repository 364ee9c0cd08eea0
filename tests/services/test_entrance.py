"""The door of a tunnel server: the image's own HAProxy before the pinned frps, with real tunnels behind."""

import contextlib
import json
import signal
import socket
import time
from typing import Any

import pytest

from components.entrance_config import HEADER_SECONDS
from tests.services.doors import Entrance, thrown
from tests.services.sessions import BANNER, CONNECT, HOST, OpenEntrance, alive, session
from tests.services.world import Frps, Gate, wait_for

FLOOD = 3000


@pytest.fixture
def entrance(entrance_to: OpenEntrance) -> Entrance:
    """Give an entrance with its defaults."""
    return entrance_to()


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
    said = BANNER + b"at once"
    assert entrance.ask(CONNECT + b"at once", until=said).endswith(said)
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
    assert entrance.ask(head.encode(), until=BANNER).endswith(BANNER)


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
    assert status in entrance.ask(said).split(b"\r\n")[0]
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


def test_a_flood_from_everywhere_passes(entrance_to: OpenEntrance) -> None:
    """Connections from hundreds of sources that say nothing fill the house; they go, and an honest session gets in."""
    entrance = entrance_to(total=1000)
    with thrown(entrance, FLOOD // 2, b"CONNECT ", sources=500):
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


def test_a_drain_has_an_end(entrance_to: OpenEntrance) -> None:
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
