"""One source cannot shut out the others: the real Envoy with its module, under thousands of connections."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from components import proxy_config
from components.proxy_config import EVERY
from components.proxy_filters import BURST
from components.proxy_spec import ProxyLimitsSpec
from tests.services.proxies import ROOT, STORAGE, Download, OpenProxy, Proxy, Upstream, plain
from tests.services.world import is_open, wait_for

FILE = f"{ROOT}/a"
RUDE, HONEST = "127.1.0.1", "127.0.0.2"
FLOOD = 6000
"""More than all that one proxy takes."""

FAST = 100_000
"""New connections a second that no client here reaches."""


@contextmanager
def held(port: int, count: int, source: str = RUDE) -> Iterator[list[socket.socket]]:
    """Hold *count* connections from *source* that say nothing; some are closed before anybody looks."""
    with ExitStack() as stack:
        made = []
        for number in range(count):
            connection = stack.enter_context(socket.socket())
            connection.bind((source, 0))
            connection.settimeout(0)
            connection.connect_ex(("127.0.0.1", port))
            made.append(connection)
            if number % 200 == 199:
                time.sleep(0.02)  # one process plays them all; the queue of the kernel is not what is tried
        yield made


def count_open(connections: list[socket.socket]) -> int:
    """Count those that nobody has closed."""
    return sum(is_open(connection) for connection in connections)


def refused(asked: Proxy) -> int:
    """Read from the metrics how many connections were refused."""
    lines = plain(asked.places.health, "/metrics").body.decode().splitlines()
    return sum(
        int(line.split()[-1]) for line in lines if line.startswith("envoy_listener_gpu_runtime_sources_refused{")
    )


def test_idle_connections_of_one_source_leave_room(proxy_with: OpenProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opens more than the proxy takes, without a password, keeps its share, and everybody else is served."""
    monkeypatch.setattr(proxy_config, "HEADER_SECONDS", 100)  # none of the silent goes by itself while they are counted
    asked = proxy_with(new_connections_per_source=FAST)
    share = ProxyLimitsSpec().of_source
    with held(asked.places.https, FLOOD) as connections:
        wait_for(lambda: refused(asked) == FLOOD - share, "the rest is refused")
        assert asked.status(FILE, source=HONEST) == 200
        assert asked.ready()
        assert count_open(connections) == share
    wait_for(lambda: asked.lets_in(RUDE), "the source is let in again")


def test_a_share_is_given_back_each_time(proxy_with: OpenProxy) -> None:
    """Whatever ended them, connections that are gone are not counted."""
    asked = proxy_with(connections_per_source=10, new_connections_per_source=FAST)
    for _ in range(5):
        wait_for(lambda: _held_at_once(asked, 30) == 10, "as many as may, and no fewer")


def _held_at_once(asked: Proxy, count: int) -> int:
    """Count how many of *count* connections are left open, in which the last round's may still have a share."""
    before = refused(asked)
    with held(asked.places.https, count) as connections:
        wait_for(lambda: refused(asked) - before >= count - 10, "the rest is refused")
        return count_open(connections)


def test_the_way_to_https_counts_as_well(proxy_with: OpenProxy) -> None:
    """A source has one share, at whichever port it knocks."""
    asked = proxy_with(connections_per_source=10, new_connections_per_source=FAST)
    with held(asked.places.plain, 20) as connections:
        wait_for(lambda: refused(asked) == 10, "the rest is refused")
        assert count_open(connections) == 10
        assert not asked.lets_in(RUDE)
        assert asked.lets_in(HONEST)


def test_both_kinds_of_addresses_have_shares(proxy_with: OpenProxy) -> None:
    """Where the proxy takes IPv6, clients of IPv4 are no single source; nor does one of theirs count for the others."""
    asked = proxy_with(address=EVERY, connections_per_source=10, new_connections_per_source=FAST)
    with held(asked.places.https, 20) as connections:
        wait_for(lambda: count_open(connections) == 10, "as many as may")
        assert not asked.lets_in(RUDE)
        assert asked.lets_in(HONEST)
        assert asked.lets_in("::1")


class Flood:
    """A source that opens TLS connections as fast as it can, and ends each at once; a thread plays it."""

    def __init__(self, asked: Proxy) -> None:
        self.asked = asked
        self.tried = self.opened = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.begun = time.monotonic()
        self.thread.start()

    def _run(self) -> None:
        context = ssl._create_unverified_context()  # noqa: S323 - it trusts anybody
        while not self.ended.is_set():
            self.tried += 1
            with (
                suppress(OSError),
                socket.create_connection(("127.0.0.1", self.asked.places.https), 5, (RUDE, 0)) as it,
            ):
                context.wrap_socket(it, server_hostname=STORAGE).close()
                self.opened += 1

    def end(self) -> float:
        """End it; give the seconds that it lasted."""
        self.ended.set()
        self.thread.join()
        return time.monotonic() - self.begun


def test_a_flood_of_handshakes_is_slowed(proxy_with: OpenProxy) -> None:
    """A source gets so many handshakes a second, the proxy's time is the others', and the source is not locked out."""
    rate = 5
    asked = proxy_with(new_connections_per_source=rate)
    flood = Flood(asked)
    served = [asked.status(FILE, source=f"127.0.1.{number}") for number in range(1, 101)]
    wait_for(lambda: flood.tried > 500, "it has tried")
    seconds = flood.end()

    assert served == [200] * 100
    assert rate * BURST <= flood.opened <= rate * (seconds + BURST) + 1
    wait_for(lambda: asked.lets_in(RUDE), "who comes slower is let in")


def test_a_refusal_cuts_nothing(proxy_with: OpenProxy, upstream: Upstream) -> None:
    """A download of a source that then asks for too much goes on to its end."""
    upstream.body, before = b"x" * (8 << 20), upstream.body
    upstream.may_end.clear()
    try:
        asked = proxy_with(connections_per_source=10, new_connections_per_source=FAST)
        download = Download(asked, FILE, len(upstream.body), source=RUDE)
        with held(asked.places.https, 50):
            wait_for(lambda: refused(asked) == 41, "the rest is refused")
            assert download.finish(upstream) == upstream.body
    finally:
        upstream.body = before
        upstream.may_end.set()


def test_the_module_is_made_for_this_envoy(proxy_with: OpenProxy) -> None:
    """Envoy says nothing against its version; another Envoy needs a look at the module."""
    asked = proxy_with()
    assert asked.status(FILE) == 200
    assert "ABI" not in asked.process.text
