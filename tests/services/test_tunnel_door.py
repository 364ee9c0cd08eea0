"""The door before frps' own port: the image's HAProxy, the pinned frps, real tunnel clients, and who means no good."""

import contextlib
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from components.entrance_config import LimitsSpec, TunnelLimitsSpec
from components.tunnel_door import ALIVE_PATH, HELLO_SECONDS
from tests.services.doors import TunnelDoor, get, memory_of, thrown, unpack_root
from tests.services.world import Authority, Echo, Frps, Gate, Tunnel, claim, wait_for, wanted
from tools.images.build import part_files
from tools.images.recipes import ENTRANCE_ROOT

BANNER = b"SSH-2.0-echo\r\n"
HOST, OTHER = claim().host, claim("other").host
FLOOD = 3000

Open = Callable[..., TunnelDoor]
Join = Callable[[TunnelDoor, str], Tunnel]


def hello() -> bytes:
    """Give the first words of a TLS client, which will say nothing more."""
    out = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="frps").do_handshake()
    return out.read()


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the file system of the entrance's image."""
    if os.geteuid():
        pytest.skip("the image's file system is entered as root")
    return unpack_root(part_files(ENTRANCE_ROOT) / "root.tar", tmp_path_factory.mktemp("door"))


@pytest.fixture
def open_door(root: Path, frps: Frps) -> Iterator[Open]:
    """Open doors before one frps."""
    with ExitStack() as stack:

        def begin(**limits: int) -> TunnelDoor:
            made = TunnelDoor(root, frps, LimitsSpec(tunnel=TunnelLimitsSpec(**limits)))
            stack.callback(made.process.end, signal.SIGKILL)
            return made

        yield begin


@pytest.fixture
def join(frps: Frps, authority: Authority, sshd: Echo, tmp_path: Path) -> Iterator[Join]:
    """Bring units through a door."""
    with ExitStack() as stack:

        def begin(door: TunnelDoor, unit: str) -> Tunnel:
            folder = tmp_path / unit
            (folder / "mount").mkdir(parents=True)
            tunnel = Tunnel(folder, sshd)
            stack.callback(tunnel.process.end)
            tunnel.mount(wanted(door.server, authority, claim(unit)))
            wait_for(lambda: frps.greeting(claim(unit).host) == BANNER, f"{unit} is reached", 40)
            return tunnel

        yield begin


def session(frps: Frps, host: str = HOST) -> socket.socket:
    """Open a session and read the banner."""
    status, connection = frps.open(host)
    assert b" 200 " in status
    assert connection.recv(len(BANNER), socket.MSG_WAITALL) == BANNER
    return connection


def alive(connection: socket.socket) -> bool:
    """Tell whether what is sent comes back."""
    connection.sendall(b"ping")
    return connection.recv(100) == b"ping"


def test_a_unit_comes_through_and_is_told(open_door: Open, join: Join, frps: Frps, gate: Gate) -> None:
    """A unit logs in, sessions work, and the door's log says which address frps and the gate name as its own."""
    door = open_door()
    join(door, "trainer")
    with session(frps) as connection:
        assert alive(connection)
    lines = {line["frps"]: line["client"] for line in door.process.events("tunnel")}
    login = gate.process.events("login")[-1]

    assert lines[login["client"]].startswith("127.0.0.1:")
    assert lines[login["client"]] != login["client"]


@pytest.mark.parametrize("said", [b"", hello()], ids=["silent", "half a handshake"])
def test_one_source_cannot_fill_a_server(open_door: Open, join: Join, frps: Frps, said: bytes) -> None:
    """Thousands of connections from one unit: frps sees its share at most, and another unit works and comes anew."""
    door = open_door(per_source=100)
    join(door, "trainer")
    before = memory_of(frps.process)
    with session(frps) as connection, thrown(door, FLOOD, said, sources=1):
        assert door.reached() <= 100 + 20
        join(door, "other")
        with session(frps, OTHER) as other:
            assert alive(other)
        assert alive(connection)
        assert memory_of(frps.process) < before + 32 * 2**20
        assert memory_of(door.process) < 128 * 2**20
        assert door.healthy()


def test_a_flood_from_everywhere_passes(open_door: Open, join: Join, frps: Frps) -> None:
    """Silent connections from hundreds of addresses fill the house and go, without frps ever hearing of them."""
    door = open_door(total=1000)
    join(door, "trainer")
    with session(frps) as connection, thrown(door, FLOOD, b"", sources=500):
        assert door.reached() < 20
        join(door, "other")
        assert alive(connection)
        assert memory_of(door.process) < 128 * 2**20


GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "frp without TLS": b"\x6f\x00\x00\x00\x00\x00\x00\x00\x10{}",
    "noise": bytes(range(1, 256)) * 16,
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_never_reaches_frps(open_door: Open, name: str) -> None:
    """What does not begin as TLS does is ended by the door; frps hears nothing of it."""
    door = open_door()
    with socket.create_connection(("127.0.0.1", door.port), 10) as connection:
        connection.sendall(GARBAGE[name])
        connection.settimeout(HELLO_SECONDS * 3)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b""
    line = wait_for(lambda: door.process.events("tunnel"), "a line")[-1]
    assert (line["frps"].partition(":")[0], line["state"][0]) == ("-", "P")


def test_silence_ends(open_door: Open) -> None:
    """Who says nothing is ended within seconds."""
    door = open_door()
    with socket.create_connection(("127.0.0.1", door.port), 10) as connection:
        connection.settimeout(HELLO_SECONDS * 4)
        assert connection.recv(100) == b""


def test_it_ends_at_once(open_door: Open, join: Join) -> None:
    """It is asked to end when the sessions are over: that units hold connections to be called does not keep it."""
    door = open_door()
    join(door, "trainer")
    began = time.monotonic()
    door.process.popen.send_signal(signal.SIGUSR1)
    door.process.popen.wait(30)
    assert time.monotonic() - began < 20


def test_it_says_whether_frps_lives(open_door: Open, frps: Frps) -> None:
    """The kubelet, which cannot reach frps on loopback, learns from the door that it is gone, and that it is back."""
    door = open_door()

    def says(status: int) -> bool:
        return get(door.health, ALIVE_PATH)[0] == status

    wait_for(lambda: says(200), "frps lives")
    frps.process.end(signal.SIGKILL)
    wait_for(lambda: says(503), "frps is gone", 40)
    assert door.healthy()
    frps.start()
    wait_for(lambda: says(200), "frps lives again", 40)
