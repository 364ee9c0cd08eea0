"""What clients keep in the proxy's memory that do not read: the real Envoy, told by the service's own words."""

import http.client
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from routes.envoy import AT_ONCE, clusters_json, routes_json
from routes.hosts import Site
from routes.things import Address
from routes.view import Port, Storage, Tenant

from components.model import bytes_of
from components.proxy import MEMORY
from components.proxy_overload import HEAP_SHARE
from components.proxy_spec import MOST_OF_TENANT
from components.routes import CLUSTERS_FILE, ROUTES_FILE
from tests.services.deaf import Deaf
from tests.services.proxies import HOST, PASSWORD, PORT, ROOT, STORAGE, USER, Proxy, Upstream, basic, hashed, proxy
from tests.services.world import holds, wait_for
from tools.images.build import part_files
from tools.images.recipes import ENVOY

READERS = int(AT_ONCE["circuit_breakers"]["thresholds"][0]["max_connections"])
"""As many as there may be at once to one browser or port."""

EACH, EACH_BY_HTTP2 = 200 * 1024, 400 * 1024
"""Bytes of the proxy's memory for one that does not read, both of its connections and TLS included."""

LARGE = 64 << 20
"""More than all sockets between them hold."""

PATH = f"{ROOT}/large"


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    """Give a server whose answers are large."""
    made = Upstream()
    made.body = bytes(LARGE)
    yield made
    made.end()


@pytest.fixture
def asked(upstream: Upstream, tmp_path: Path) -> Iterator[Proxy]:
    """Give a new proxy, which keeps no memory of another test's, and leads to a storage and a port as `routes` says."""
    folder = tmp_path / "it"
    envoy, many = part_files(ENVOY) / "envoy", 100_000
    with proxy(
        *(envoy, folder, upstream.port),
        connections_per_source=4096,
        new_connections_per_source=many,
        per_source=many,
        per_origin=many,
    ) as made:
        at = (Address("127.0.0.1", upstream.port),)
        storages, ports = (Storage("dataset", "1Gi", None, at),), (Port("trainer", "http", at),)
        tenants = [Tenant("lab-a", "lab-a", hashed(USER, PASSWORD), storages, ports)]
        files = {CLUSTERS_FILE: clusters_json(tenants), ROUTES_FILE: routes_json(tenants, Site(HOST, 443))}
        for name, content in files.items():
            (made.folder / "routes" / f".{name}").write_text(content)
            (made.folder / "routes" / f".{name}").rename(made.folder / "routes" / name)
        wait_for(lambda: made.status(f"{ROOT}x/", STORAGE) == http.client.NOT_FOUND, "what routes says is served")
        yield made


@pytest.mark.parametrize(("host", "other"), [(STORAGE, PORT), (PORT, STORAGE)])
def test_slow_readers_take_little_memory(asked: Proxy, host: str, other: str) -> None:
    """As many as may be at once, none of whom reads: what they asked for waits at its server, on either side.

    Beyond them 503, and whatever else there is is served.
    """
    asked.status(f"{ROOT}x/", host, method="HEAD")
    before = asked.memory
    with ExitStack() as stack:
        for _ in range(READERS):
            begin(asked, host, stack)
        wait_for(lambda: asked.admin.requests("proxy") == READERS, "all have begun", 60)
        holds(lambda: asked.memory - before < READERS * EACH, "memory stays", 3.0)
        late = [begin(asked, host, stack) for _ in range(120)]
        assert late[-1].getresponse().status == http.client.SERVICE_UNAVAILABLE
        with closing(asked.open(other)) as connection:
            connection.request("GET", PATH, headers=basic())
            assert connection.getresponse().read(10) == bytes(10)
    wait_for(lambda: asked.admin.requests("proxy") == 0, "all have gone", 60)


def test_slow_readers_by_http2_take_no_more_than_a_tenants_share_is_for(asked: Proxy) -> None:
    """Each with a connection of its own, which costs most: as many as a tenant may at most have leave half a pod."""
    before = asked.memory
    with ExitStack() as stack:
        for _ in range(READERS):
            deaf = stack.enter_context(Deaf(asked))
            deaf.ask(PATH, STORAGE, basic(), times=1)
            assert deaf.statuses == [http.client.OK]
        assert asked.admin.requests("proxy") == READERS
        holds(lambda: asked.memory - before < READERS * EACH_BY_HTTP2, "memory stays", 3.0)
    wait_for(lambda: asked.admin.requests("proxy") == 0, "all have gone", 60)
    assert bytes_of(MEMORY) * HEAP_SHARE / 2 > MOST_OF_TENANT * EACH_BY_HTTP2


def begin(asked: Proxy, host: str, stack: ExitStack) -> http.client.HTTPConnection:
    """Ask for what is large, and read nothing of it."""
    connection = asked.open(host)
    stack.callback(connection.close)
    connection.request("GET", PATH, headers=basic())
    return connection
