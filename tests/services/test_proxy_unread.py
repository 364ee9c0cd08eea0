"""Answers that a client does not take do not fill the proxy: the real Envoy with its module, by HTTP/2."""

import socket
from contextlib import ExitStack, closing

import pytest

from components import proxy_config
from components.proxy_spec import STREAMS, ProxyLimitsSpec
from tests.services.deaf import Deaf
from tests.services.proxies import HOST, ROOT, STORAGE, OpenProxy, Upstream, basic
from tests.services.world import wait_for

FILE = f"{ROOT}/a"
RUDE = "127.1.0.1"
MOST = ProxyLimitsSpec().requests_of_source
CONNECTIONS = 3 * MOST // STREAMS
EACH = 40 * 1024
"""Bytes of the proxy's memory for a refusal that waits, with its share of the connection."""


@pytest.mark.parametrize("signed_in", [False, True])
def test_refusals_that_nobody_takes_have_a_bound(proxy_with: OpenProxy, signed_in: bool) -> None:  # noqa: FBT001 - a column
    """A source has so many requests open, refused ones too; beyond, they are reset. Everybody else is served."""
    asked = proxy_with()
    before, headers = asked.memory, basic() if signed_in else {}
    with ExitStack() as stack:
        deaf = [stack.enter_context(Deaf(asked, RUDE)) for _ in range(CONNECTIONS)]
        for client in deaf:
            client.ask("/nothing", STORAGE, headers)
        assert sum(len(client.statuses) for client in deaf) == MOST
        assert sum(client.resets for client in deaf) == CONNECTIONS * STREAMS - MOST
        assert asked.memory - before < MOST * EACH
        assert asked.status(FILE) == 200
    wait_for(lambda: asked.admin.requests("proxy") == 0, "all have gone")


def test_what_is_not_taken_is_given_up(proxy_with: OpenProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of an answer waits so long, and then the source may ask again."""
    monkeypatch.setattr(proxy_config, "FLUSH_SECONDS", 8)
    asked = proxy_with(connections=48)
    with Deaf(asked, RUDE) as deaf, Deaf(asked, RUDE) as other:
        deaf.ask("/nothing", STORAGE)
        other.ask("/nothing", STORAGE, times=1)
        assert (len(deaf.statuses), other.resets) == (STREAMS, 1)
        wait_for(lambda: asked.admin.requests("proxy") == 0, "they are given up")
        other.ask("/nothing", STORAGE, times=1)
        assert len(other.statuses) == 1


@pytest.mark.parametrize(("method", "path"), [("GET", "/a%2fb"), ("OPTIONS", "*")])
def test_what_no_filter_sees_is_not_kept(proxy_with: OpenProxy, method: str, path: str) -> None:
    """Envoy itself refuses it, before anything is counted: without a body, since none is taken."""
    asked = proxy_with()
    with Deaf(asked, RUDE) as deaf:
        deaf.ask(path, STORAGE, method=method)
        assert len(deaf.statuses) == STREAMS
        assert set(deaf.statuses) <= {400, 404}
        wait_for(lambda: asked.admin.requests("proxy") == 0, "nothing waits")


def test_who_reads_nothing_is_let_go(
    proxy_with: OpenProxy, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel ends a connection that takes nothing, whatever its streams may wait for."""
    monkeypatch.setattr(proxy_config, "UNREAD_SECONDS", 3)
    asked = proxy_with()
    monkeypatch.setattr(upstream, "body", bytes(64 << 20))
    with closing(asked.open()) as connection:
        connection.request("GET", FILE, headers=basic())
        assert connection.getresponse().status == 200
        wait_for(lambda: asked.admin.requests("proxy") == 0, "its request to be over")


@pytest.mark.parametrize(("host", "length", "status"), [(HOST, 2049, 414), (HOST, 2048, 308), (STORAGE, 8191, 414)])
def test_long_paths_are_not_repeated(proxy_with: OpenProxy, host: str, length: int, status: int) -> None:
    """Nobody fills the proxy with answers that are as long as the question."""
    asked = proxy_with()
    path = f"{ROOT}/{'a' * length}"[:length]
    assert asked.status(path, host) == status


def test_the_log_says_why_a_request_was_reset(proxy_with: OpenProxy) -> None:
    """Who answers for the proxy sees from where too much came."""
    asked = proxy_with(connections=48)
    with Deaf(asked, RUDE) as deaf, Deaf(asked, RUDE) as other:
        deaf.ask("/nothing", STORAGE)
        other.ask("/nothing", STORAGE, times=1)
        wait_for(lambda: any("source_has_too_many_open" in str(line["reason"]) for line in asked.log), "the line")
    (line,) = (line for line in asked.log if "source_has_too_many_open" in str(line["reason"]))
    assert line["client"].startswith(f"{RUDE}:")


def test_both_kinds_of_addresses_are_known(proxy_with: OpenProxy) -> None:
    """A request of a source that is not understood would be reset."""
    asked = proxy_with(address=proxy_config.EVERY)
    assert [asked.status(FILE, source=source) for source in ("127.0.0.2", "::1")] == [200, 200]


def test_without_tls_there_is_no_http2(proxy_with: OpenProxy) -> None:
    """There one connection is one request, so that the limit of connections is enough."""
    asked = proxy_with()
    with socket.create_connection(("127.0.0.1", asked.places.plain), 5) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
        assert connection.recv(65536).startswith(b"HTTP/1.1 ")
