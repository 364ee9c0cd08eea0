"""The door before frps' own port: the image's HAProxy, the pinned frps, real tunnel clients, and who means no good."""

import contextlib
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from components.entrance_config import WINDOW_SECONDS, LimitsSpec, TunnelLimitsSpec
from components.tunnel_door import ALIVE_PATH, HELLO_SECONDS
from tests.services.doors import TunnelDoor, get, memory_of, thrown
from tests.services.rude import LOGIN, LOGIN_ANSWER, message
from tests.services.world import Authority, Echo, Frps, Gate, Tunnel, claim, metas, wait_for, wanted

BANNER = b"SSH-2.0-echo\r\n"
HOST, OTHER = claim().host, claim("other").host
FLOOD = 3000
RUDE = "127.1.0.1"
SLOWLY = 20
"""New connections in a window that some tests allow one address: any machine is faster."""

Open = Callable[..., TunnelDoor]
Join = Callable[[TunnelDoor, str], Tunnel]


def hello() -> bytes:
    """Give the first words of a TLS client, which will say nothing more."""
    out = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="frps").do_handshake()
    return out.read()


@pytest.fixture
def open_door(haproxy_root: Path, frps: Frps) -> Iterator[Open]:
    """Open doors before one frps."""
    with ExitStack() as stack:

        def begin(**limits: int) -> TunnelDoor:
            made = TunnelDoor(haproxy_root, frps, LimitsSpec(tunnel=TunnelLimitsSpec(**limits)))
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


def ask_to_log_in(door: TunnelDoor, ca: Path, source: str) -> bytes:
    """Say Login as whoever is in a pod can, with the unit's claim and no token; give the beginning of the answer."""
    said = {"version": "0.70.1", "metas": metas(claim()), "privilege_key": "", "timestamp": int(time.time())}
    context = ssl.create_default_context(cafile=ca)
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", door.port), 10, (source, 0)) as bare,
        context.wrap_socket(bare, server_hostname="frps") as connection,
    ):
        connection.sendall(message(LOGIN, said))
        return connection.recv(1)
    return b""


def test_one_address_cannot_keep_the_gate_busy(open_door: Open, join: Join, gate: Gate, authority: Authority) -> None:
    """Logins in a loop from one address cost the gate what it may ask for and no more; a unit elsewhere comes."""
    door, answers = open_door(new_per_source=SLOWLY), list[bytes]()
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        loop = pool.submit(lambda: answers.extend(ask_to_log_in(door, authority.ca, RUDE) for _ in range(400)))
        join(door, "other")
        loop.result()
    windows = (time.monotonic() - began) / WINDOW_SECONDS + 2
    asked = [line for line in gate.process.events("login") if line["unit"] == claim().unit]

    assert answers[:SLOWLY] == [LOGIN_ANSWER] * SLOWLY
    assert SLOWLY <= len(asked) <= SLOWLY * windows


def test_a_unit_that_was_refused_comes_by_itself(open_door: Open, join: Join, authority: Authority) -> None:
    """The address has had its share when the tunnel client starts: it is refused, tries again and is reached."""
    door = open_door(new_per_source=SLOWLY)
    for _ in range(SLOWLY):
        ask_to_log_in(door, authority.ca, "127.0.0.1")
    assert ask_to_log_in(door, authority.ca, "127.0.0.1") == b""
    tunnel = join(door, "trainer")
    assert tunnel.process.events("exited") or tunnel.process.events("ended")


def test_all_units_of_a_node_may_start_at_once(open_door: Open, authority: Authority) -> None:
    """Behind one address 500 connections come at once and each is heard, as where the cluster hides pods' addresses."""
    door = open_door(per_source=1000)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: ask_to_log_in(door, authority.ca, RUDE), range(500)))
    assert answers == [LOGIN_ANSWER] * len(answers)


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
