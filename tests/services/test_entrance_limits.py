"""What one source may take at the entrance: the image's own HAProxy, the pinned frps and a real gate behind it."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from components.entrance_config import TOO_MANY, WINDOW_SECONDS, LimitsSpec
from tests.services.doors import Entrance, thrown
from tests.services.sessions import CONNECT, HOST, OpenEntrance, alive, session
from tests.services.world import Gate, wait_for

FLOOD = 3000
RUDE, HONEST = "127.1.0.1", "127.0.0.2"


@contextmanager
def asked(entrance: Entrance, number: int, source: str = RUDE) -> Iterator[list[bytes]]:
    """Open *number* connections to the unit from *source*, one at a time, and hold them; give what each was told."""
    with ExitStack() as held:
        said = []
        for _ in range(number):
            status, connection = entrance.open(HOST, source)
            held.enter_context(connection)
            said.append(status)
        yield said


def test_one_source_has_its_limit(entrance_to: OpenEntrance) -> None:
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


def test_one_unit_has_its_limit(entrance_to: OpenEntrance) -> None:
    """A unit takes so many sessions and no more, from however many sources and in whatever spelling."""
    entrance = entrance_to(per_unit=3)
    held = [session(entrance, f"127.0.0.{number + 1}") for number in range(3)]
    assert b" 429 " in entrance.status(HOST, "127.0.0.9")
    assert b" 429 " in entrance.status(HOST.upper(), "127.0.0.9")
    held[0].close()
    wait_for(lambda: b" 200 " in entrance.status(HOST, "127.0.0.9"), "there is room again")
    for connection in held:
        connection.close()


def test_one_source_locks_nobody_out_of_a_unit(entrance_to: OpenEntrance) -> None:
    """Of 200 connections that one source opens to a unit it holds its share; who comes from elsewhere gets in there."""
    entrance, share = entrance_to(), LimitsSpec().of_pair
    with asked(entrance, 200) as said:
        assert sum(b" 200 " in status for status in said) == share
        assert all(b" 429 " in status for status in said[share:])
        with session(entrance, HONEST) as connection:
            assert alive(connection)
        assert b" 404 " in entrance.status(f"another-{HOST}", RUDE), "to other units it has a share of its own"
        body = entrance.ask(CONNECT, source=RUDE).partition(b"\r\n\r\n")[2]
        assert body == b"too many connections from your address to this unit: end some, or try again in 10 seconds\n"
    wait_for(lambda: b" 200 " in entrance.status(HOST, RUDE), "the source gets in again")


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""How HTTP/2 begins, with an empty frame of settings."""


def test_a_connection_is_one_session(entrance_to: OpenEntrance) -> None:
    """By HTTP/2 one connection would be any number of sessions, which no limit counts: it is spoken by nobody here."""
    entrance = entrance_to(per_source=4)

    assert b" 400 " in entrance.ask(PREFACE).split(b"\r\n")[0]
    assert b" 200 " in entrance.status(HOST)


def test_25_at_once_from_one_source_get_in(entrance_to: OpenEntrance) -> None:
    """Ansible's forks, and an editor beside them, come from one address to one unit."""
    entrance = entrance_to()
    with ThreadPoolExecutor(28) as pool:
        held = list(pool.map(lambda _: session(entrance), range(28)))
    for connection in held:
        assert alive(connection)
        connection.close()


@pytest.mark.parametrize("said", [b"", b"CONNECT ", CONNECT], ids=["silent", "half a header", "sessions"])
def test_an_honest_session_gets_in_among_thousands(entrance_to: OpenEntrance, said: bytes) -> None:
    """While a source holds all that it can and throws thousands more, another's session works; memory is bounded."""
    entrance = entrance_to()
    with session(entrance, HONEST) as before, ExitStack() as held:
        if said == CONNECT:
            given = held.enter_context(asked(entrance, 100, "127.1.0.1"))
            assert sum(b" 200 " in status for status in given) == LimitsSpec().of_pair
        held.enter_context(thrown(entrance, FLOOD, said, sources=1))
        with session(entrance, HONEST) as during:
            assert alive(during)
        assert alive(before)
        assert entrance.healthy()
        assert entrance.memory < 128 * 2**20


SLOWLY = 20
"""New connections in a window that the tests below allow one source: any machine is faster."""


def test_one_source_cannot_keep_the_gate_busy(entrance_to: OpenEntrance, gate: Gate) -> None:
    """A source that connects and leaves in a loop costs the gate what it may and no more; others log in beside it."""
    entrance, told = entrance_to(new_per_source=SLOWLY), list[bytes]()
    began, before = time.monotonic(), len(gate.process.events("session"))
    with ThreadPoolExecutor(1) as pool:
        loop = pool.submit(lambda: told.extend(entrance.status(HOST, RUDE) for _ in range(400)))
        mine = 0
        while mine < 10 or not loop.done():
            with session(entrance, f"127.0.0.{mine % 200 + 2}") as connection:
                assert alive(connection)
            mine += 1
    windows = (time.monotonic() - began) / WINDOW_SECONDS + 2
    allowed = sum(b" 200 " in status for status in told)

    assert SLOWLY <= allowed <= SLOWLY * windows
    assert any(b" 429 " in status for status in told)
    assert any(status == b"" for status in told), "far above, it is closed unread"
    assert len(gate.process.events("session")) - before <= allowed + mine


def test_a_class_that_logs_in_at_once_gets_in(entrance_to: OpenEntrance) -> None:
    """100 people behind one address, three connections each: where a stack lets them hold these, no rate refuses."""
    entrance = entrance_to(per_source=1000, per_unit=1000, per_source_of_unit=1000)
    with ThreadPoolExecutor(30) as pool:
        said = list(pool.map(lambda _: entrance.status(HOST), range(3 * 100)))
    assert all(b" 200 " in status for status in said)


def test_who_came_too_fast_gets_in_again(entrance_to: OpenEntrance) -> None:
    """Above its rate a source is told so, and what was refused does not count: it gets in while it goes on asking."""
    entrance = entrance_to(new_per_source=SLOWLY)
    assert all(b" 200 " in entrance.status(HOST) for _ in range(SLOWLY))
    refused = entrance.ask(CONNECT)
    assert b" 429 " in refused.split(b"\r\n")[0]
    assert b"in so short a time" in refused
    said = b""
    for _ in range(SLOWLY * (TOO_MANY - 1) - 2):  # not so often that it would be closed unread
        time.sleep(1)
        if b" 200 " in (said := entrance.status(HOST)):
            break
    assert b" 200 " in said
