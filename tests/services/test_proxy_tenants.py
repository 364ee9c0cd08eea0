"""One tenant cannot take the proxy's memory from the others: the real Envoy with its module, people signed in."""

import http.client
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from components.proxy_spec import STREAMS
from tests.services.deaf import Deaf
from tests.services.proxies import (
    HOST,
    PASSWORD,
    PORT,
    ROOT,
    STORAGE,
    USER,
    OpenProxy,
    Proxy,
    Upstream,
    basic,
    hashed,
    origins,
    to,
    virtual_host,
)
from tests.services.world import wait_for

FILE = f"{ROOT}/a"
LIMIT = STREAMS
"""The least that a stack file may say."""

LARGE = 64 << 20
"""Bytes: more than all sockets between them hold."""

NEIGHBOUR = f"dataset--lab-b.{HOST}"
"""A storage of another tenant, with people of its own."""

OK, TOO_MANY = http.client.OK, http.client.TOO_MANY_REQUESTS


def with_neighbour(asked: Proxy) -> Proxy:
    """Have the proxy lead to the other tenant as well."""
    users = hashed(USER, PASSWORD)
    asked.routes(*origins(users), virtual_host(NEIGHBOUR, [to("storage", prefix="/")], hashed("lab-b", PASSWORD)))
    wait_for(lambda: neighbour(asked) == OK, "the other tenant is served")
    return asked


def status(asked: Proxy, host: str, user: str = USER) -> int:
    """Ask a host, and read no more than the status."""
    with closing(asked.open(host)) as connection:
        connection.request("GET", FILE, headers=basic(user))
        return connection.getresponse().status


def neighbour(asked: Proxy) -> int:
    """Ask as one of the other tenant's people."""
    return status(asked, NEIGHBOUR, "lab-b")


@contextmanager
def held(asked: Proxy, upstream: Upstream, *hosts: str) -> Iterator[None]:
    """Hold a download of each of *hosts* of which nobody reads more than that it has begun."""
    upstream.body, before = bytes(LARGE), upstream.body
    with ExitStack() as stack:
        try:
            for host in hosts:
                connection = stack.enter_context(closing(asked.open(host)))
                connection.request("GET", FILE, headers=basic())
                assert connection.getresponse().status == OK
            yield
        finally:
            upstream.body = before


def test_a_tenant_has_a_share_in_all_that_it_has_together(proxy_with: OpenProxy, upstream: Upstream) -> None:
    """Downloads that nobody reads, at whichever of its hosts, leave room for others; what ends gives its place back."""
    asked = with_neighbour(proxy_with(open_per_tenant=LIMIT))
    with held(asked, upstream, *[STORAGE, PORT] * (LIMIT // 2)):
        assert [status(asked, host) for host in (STORAGE, PORT)] == [TOO_MANY] * 2
        assert neighbour(asked) == OK
    wait_for(lambda: status(asked, STORAGE) == OK, "the tenant is served again")


def test_the_log_says_whose_share_is_used_up(proxy_with: OpenProxy, upstream: Upstream) -> None:
    """Who answers for the proxy finds the tenant, the user and why."""
    asked = with_neighbour(proxy_with(open_per_tenant=LIMIT))
    with held(asked, upstream, *[STORAGE] * LIMIT):
        status(asked, PORT)
    wait_for(lambda: any(line["status"] == TOO_MANY for line in asked.log), "the line")
    (line,) = (line for line in asked.log if line["status"] == TOO_MANY)

    assert (line["namespace"], line["user"], line["reason"]) == ("lab-a", USER, "tenant_has_too_many_open")


def test_sockets_count(proxy_with: OpenProxy) -> None:
    """A WebSocket is as open as a download, for as long as it lasts."""
    asked = with_neighbour(proxy_with(open_per_tenant=LIMIT))
    with ExitStack() as stack:
        for _ in range(LIMIT):
            connection = stack.enter_context(closing(asked.open(PORT)))
            upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
            connection.request("GET", "/", headers={**basic(), **upgrade, "Origin": f"https://{PORT}"})
            assert connection.getresponse().status == http.client.SWITCHING_PROTOCOLS
        assert status(asked, STORAGE) == TOO_MANY
        assert neighbour(asked) == OK
    wait_for(lambda: status(asked, STORAGE) == OK, "the tenant is served again")


def test_strangers_take_nothing_of_a_tenants_share(proxy_with: OpenProxy, upstream: Upstream) -> None:
    """Who has no password has no place, not even while no answer is taken, and is not told whether there is one."""
    asked = with_neighbour(proxy_with(open_per_tenant=LIMIT))
    with Deaf(asked) as stranger:
        stranger.ask(FILE, STORAGE, times=STREAMS)
        assert status(asked, STORAGE) == OK
    with held(asked, upstream, *[STORAGE] * LIMIT), Deaf(asked) as stranger:
        stranger.ask(FILE, STORAGE, times=1)
        assert stranger.statuses == [http.client.UNAUTHORIZED]
