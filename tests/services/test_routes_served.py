"""The real `routes` beside the proxy's real Envoy: what appears in the cluster is served, and a change cuts nothing."""

import base64
import http
import json
import resource
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest
from routes.__main__ import CLUSTERS as CLUSTERS_FILE
from routes.__main__ import ROUTES as ROUTES_FILE
from routes.things import SECRETS as SECRETS_KIND

from tests.services.api import NAMESPACES, SECRETS, SERVICES, SLICES, ApiServer, Store
from tests.services.cluster import (
    PASSWORD,
    browser,
    endpoint,
    endpoint_slice,
    htpasswd,
    labels,
    put_browser,
    put_tenant,
    secret,
    unit,
)
from tests.services.proxies import HOST, Answer, Proxy, Upstream, basic, plain, proxy
from tests.services.world import Authority, Process, python, wait_for
from tools.images.build import part_files
from tools.images.recipes import ENVOY

ALICE = basic("alice", PASSWORD)
DATA, INDEX, LAB = (f"{label}.{HOST}" for label in ("data--lab-a", "lab-a", "lab--trainer--lab-a"))
ROOT = "/storage/lab-a/data"


PATIENCE = 60
"""Seconds: a busy machine is no failure of what is tested."""


@dataclass
class Running:
    """A running `routes`, the cluster that it follows, and the folder that it writes."""

    folder: Path
    authority: Authority
    into: Path
    cluster: Store = field(default_factory=Store)
    api: ApiServer = field(init=False)
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        self.start_api()
        self.start()

    def start_api(self, port: int = 0) -> None:
        """Start the API server."""
        files = self.authority.issue("api")
        self.api = ApiServer(self.cluster, self.folder / "api", self.authority.ca, files, port)

    def start(self) -> None:
        """Start the service."""
        said = ["--folder", str(self.into), "--host", HOST, "--port", "8443", "--owner", "dev"]
        said += ["--pod-cidr", "127.0.0.0/8", "--pod-cidr", "::/1", "--pod-cidr", "fe80::/10"]
        said += ["--api-server", f"127.0.0.1:{self.api.port}", "--api-dir", f"{self.folder}/api"]
        self.process = python("routes", *said, output=self.folder / "routes.log")

    def end(self) -> None:
        """End both."""
        self.process.end()
        self.api.end()

    @property
    def written(self) -> int:
        """Count how often it wrote."""
        return len(self.process.events("written"))


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """Run a server that stands for a browser and a unit's port."""
    made = Upstream()
    yield made
    made.may_end.set()
    made.end()


@pytest.fixture
def beside(tmp_path: Path, authority: Authority, upstream: Upstream) -> Iterator[tuple[Proxy, Running]]:
    """Run a proxy whose files the real service writes, with one tenant who has a storage and a port."""
    with proxy(part_files(ENVOY) / "envoy", tmp_path / "proxy", upstream.port, per_source=100_000) as served:
        routes = a_cluster_of(tmp_path, authority, tmp_path / "proxy/routes", upstream)
        yield served, routes
        routes.end()


def a_cluster_of(folder: Path, authority: Authority, into: Path, upstream: Upstream) -> Running:
    """Run the service for one tenant with a storage and a port."""
    store = Store()
    put_tenant(store, "lab-a", "alice")
    put_browser(store, "data", "lab-a", port=upstream.port)
    trainer = unit("trainer", "lab-a", "lab", '{"data": "/data"}')
    store.put_whole(SERVICES, trainer)
    store.put_whole(SLICES, endpoint_slice(trainer, {"lab": upstream.port}, endpoint("lab-a", "127.0.0.1")))
    return Running(folder, authority, into, store)


def waits(proxy: Proxy, status: int, path: str, host: str, headers: dict[str, str] | None = None) -> None:
    """Wait until *host* answers so."""
    what = f"{host}{path} answers {status}"
    wait_for(lambda: proxy.status(path, host, headers=headers or ALICE) == status, what, PATIENCE)


UPGRADES = ("", "websocket", "WebSocket", "foo", "websockets", "webs0cket", "h2c", "foo, websocket")


def upgrading(to: str) -> dict[str, str]:
    """Give the headers of a request that asks for another protocol."""
    return {"Connection": "Upgrade", "Upgrade": to} if to else {}


ALIKE = {
    "a storage": (DATA, f"other--lab-a.{HOST}", f"data--lab-b.{HOST}"),
    "a port": (LAB, f"lab--other--lab-a.{HOST}", f"lab--trainer--lab-b.{HOST}"),
    "an index": (INDEX, f"lab-b.{HOST}"),
}
"""Hosts of one form: the first exists, the others do not."""


@pytest.mark.parametrize("hosts", ALIKE.values(), ids=ALIKE.keys())
def test_whatever_protocol_is_asked_for_strangers_learn_nothing(
    beside: tuple[Proxy, Running], hosts: tuple[str, ...]
) -> None:
    """What exists, what does not, and whose it is: one answer, after the password was asked for."""
    proxy, _ = beside
    waits(proxy, 200, f"{ROOT}/", DATA)
    for path, upgrade in product(("/", f"{ROOT}/"), UPGRADES):
        said = [
            proxy.ask(path, host, headers={**who, **upgrading(upgrade)})
            for host, who in product(hosts, ({}, basic("bob", PASSWORD), basic("alice", "wrong")))
        ]
        seen = {
            (one.status, one.body, str(sorted((n, v) for n, v in one.headers.items() if n != "date"))) for one in said
        }
        assert [(status, body) for status, body, _ in seen] == [(401, b"401 sign in\n")], upgrade


def test_a_protocol_that_is_not_passed_on_is_ignored(beside: tuple[Proxy, Running]) -> None:
    """Such a request is an ordinary one. No WebSocket leads to files, whose server would read on behind its head."""
    proxy, _ = beside
    waits(proxy, 200, f"{ROOT}/", DATA)

    for upgrade in set(UPGRADES) - {"websocket", "WebSocket", "foo, websocket"}:
        assert proxy.status(f"{ROOT}/", DATA, headers={**ALICE, **upgrading(upgrade)}) == 200
    for path in ("/", f"{ROOT}/", f"{ROOT}/x"):
        assert proxy.status(path, DATA, headers={**ALICE, **upgrading("websocket")}) == 403
    assert proxy.status("/", INDEX, headers={**ALICE, **upgrading("websocket")}) == 200


def test_what_the_cluster_has_is_served(beside: tuple[Proxy, Running]) -> None:
    """A storage at its path, a port as a whole, the index at the tenant's host; and nothing without the password."""
    served, _ = beside
    waits(served, 200, f"{ROOT}/", DATA)
    for path, host, status in (
        (f"{ROOT}/a?q=1", DATA, 200),
        (f"{ROOT}x", DATA, 404),
        ("/storage/lab-b/data/", DATA, 404),
        ("/", DATA, 302),
        ("/any/where", LAB, 200),
        ("/", INDEX, 200),
        ("/more", INDEX, 404),
    ):
        assert served.status(path, host, headers=ALICE) == status, (path, host)
        for wrong in ({}, basic("alice", "wrong"), basic("bob", PASSWORD), basic("nobody", "")):
            assert served.status(path, host, headers=wrong) == 401


def _without_date(answer: Answer) -> tuple[int, list[tuple[str, str]], bytes]:
    return answer.status, [(k, v) for k, v in answer.headers.items() if k.lower() != "date"], answer.body


def test_not_yours_is_not_there(beside: tuple[Proxy, Running]) -> None:
    """A storage of another tenant, one that nobody has, and one's own with a wrong password answer alike."""
    served, routes = beside
    put_tenant(routes.cluster, "lab-b", "bob", password="another")
    put_browser(routes.cluster, "data", "lab-b")
    theirs, nobodys = f"data--lab-b.{HOST}", f"other--lab-b.{HOST}"
    waits(served, 302, "/", theirs, basic("bob", "another"))
    answers = {str(_without_date(served.ask("/", host, headers=ALICE))) for host in (theirs, nobodys)}
    answers.add(str(_without_date(served.ask("/", DATA, headers=basic("alice", "wrong")))))
    assert len(answers) == 1


def test_what_ones_own_tenant_has_not_is_not_found(beside: tuple[Proxy, Running]) -> None:
    """Who signed in is told so, and asked for no password again; strangers and neighbours are told as ever."""
    served, routes = beside
    put_tenant(routes.cluster, "lab-b", "bob", password="another")
    waits(served, 200, "/", f"lab-b.{HOST}", basic("bob", "another"))
    for label in ("nothing--lab-a", "nothing--trainer--lab-a", "data--data--lab-a"):
        for path in ("/", "/storage/lab-a/nothing/x?y", "/healthz"):
            found = served.ask(path, f"{label}.{HOST}", headers=ALICE)
            assert (found.status, found.body, found.headers["www-authenticate"]) == (404, b"404 not found\n", None)
        strangers: list[dict[str, str]] = [{}, basic("alice", "wrong"), basic("bob", "another")]
        refused = [served.ask("/", f"{label}.{HOST}", headers=said) for said in strangers]
        nobodys = served.ask("/", f"{label.replace('lab-a', 'lab-c')}.{HOST}", headers=ALICE)
        assert {str(_without_date(one)) for one in refused} == {str(_without_date(nobodys))}
    assert served.status("/", f"--lab-a.{HOST}", headers=ALICE) == 401


def test_the_index_is_a_page_that_caches_may_keep_for_its_reader(beside: tuple[Proxy, Running]) -> None:
    """It is HTML without scripts, private, and asked for again by its tag."""
    served, _ = beside
    waits(served, 200, "/", INDEX)
    page = served.ask("/", INDEX, headers=ALICE)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "private, no-cache"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert b"data--lab-a.files.example.test:8443/storage/lab-a/data/" in page.body
    assert b"rsync -a --partial trainer.lab-a:/data/ data/" in page.body
    known = served.ask("/", INDEX, headers={**ALICE, "If-None-Match": page.headers["etag"]})
    assert (known.status, known.body, known.headers["etag"]) == (304, b"", page.headers["etag"])
    head = served.ask("/", INDEX, method="HEAD", headers=ALICE)
    assert (head.status, head.body, head.headers["etag"]) == (200, b"", page.headers["etag"])
    assert served.status("/", INDEX, method="POST", headers={**ALICE, "Origin": f"https://{INDEX}"}) == 405


@pytest.mark.parametrize("method", ["PUT", "PATCH", "MKCOL", "DELETE", "MOVE", "COPY", "PROPPATCH", "LOCK", "POST"])
def test_what_is_read_only_takes_no_method_that_writes(beside: tuple[Proxy, Running], method: str) -> None:
    """Without `upload` such a method does not reach the browser at all."""
    served, _ = beside
    waits(served, 200, f"{ROOT}/", DATA)
    answer = served.ask(f"{ROOT}/x", DATA, method=method, headers=ALICE)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS, PROPFIND")


def test_uploads_are_as_large_as_they_may_be(beside: tuple[Proxy, Running]) -> None:
    """A storage that takes uploads takes those that say a size within its limit, and nothing that moves or removes."""
    served, routes = beside
    inbox, root = f"inbox--lab-a.{HOST}", "/storage/lab-a/inbox/x"
    upstream = int(routes.cluster.bodies[SLICES, "lab-a", "browser-data-x7d2k"]["ports"][0]["port"])
    put_browser(routes.cluster, "inbox", "lab-a", port=upstream, upload="10")
    waits(served, 200, "/storage/lab-a/inbox/", inbox)

    def put(body: bytes | Iterator[bytes], method: str = "PUT") -> int:
        return served.status(root, inbox, method=method, body=body, headers=ALICE)

    assert (put(b"x" * 10), put(b"x" * 11)) == (200, 413)
    assert put(iter([b"x"])) == 411
    assert {put(b"", method) for method in ("DELETE", "MOVE", "COPY")} == {405}


def test_a_page_of_another_origin_changes_nothing(beside: tuple[Proxy, Running]) -> None:
    """A request with the visitor's password that another tenant's page sends to a unit's port is refused."""
    served, _ = beside
    waits(served, 200, "/", LAB)
    for origin in (f"https://tb--other--lab-b.{HOST}", "null"):
        assert served.status("/", LAB, method="POST", body=b"", headers={**ALICE, "Origin": origin}) == 403


def test_a_change_cuts_nothing(beside: tuple[Proxy, Running], upstream: Upstream) -> None:
    """A download goes on while storages come and go, its own pod's included; its bytes are those that were sent."""
    served, routes = beside
    waits(served, 200, f"{ROOT}/", DATA)
    upstream.body = bytes(range(256)) * 40_000
    upstream.may_end.clear()
    with closing(served.open(DATA)) as connection:
        connection.request("GET", f"{ROOT}/big", headers=ALICE)
        answer = connection.getresponse()
        begun = answer.read(100_000)
        for number in range(5):
            put_browser(routes.cluster, f"more-{number}", "lab-a")
            waits(served, 302, "/", f"more-{number}--lab-a.{HOST}")
            routes.cluster.remove(SERVICES, f"browser-more-{number}", "lab-a")
        moved = endpoint_slice(browser("data", "lab-a"), {"http": upstream.port}, endpoint("lab-a", "127.0.0.1", "::1"))
        routes.cluster.put_whole(SLICES, moved)
        waits(served, 404, "/", f"more-4--lab-a.{HOST}")
        upstream.may_end.set()
        assert begun + answer.read() == upstream.body


def test_a_password_that_is_changed_counts_at_once(beside: tuple[Proxy, Running]) -> None:
    """The next request needs the new one; a Secret that goes shuts its tenant's origins."""
    served, routes = beside
    waits(served, 200, "/", INDEX)
    routes.cluster.put_whole(SECRETS, secret("lab-a", htpasswd("alice", password="new")))
    waits(served, 200, "/", INDEX, basic("alice", "new"))
    assert served.status("/", INDEX, headers=ALICE) == 401
    routes.cluster.remove(SECRETS, "access-lab-a", "gpu-runtime-access")
    waits(served, 401, "/", INDEX, basic("alice", "new"))


def test_what_is_not_ready_is_503(beside: tuple[Proxy, Running]) -> None:
    """A storage whose pod is not ready has its host, and says so."""
    served, routes = beside
    waits(served, 200, f"{ROOT}/", DATA)
    asleep = endpoint_slice(browser("data", "lab-a"), {"http": 5000}, endpoint("lab-a", "127.0.0.1", ready=False))
    routes.cluster.put_whole(SLICES, asleep)
    waits(served, 503, f"{ROOT}/", DATA)


@pytest.mark.parametrize("worn", ["lab-a", "elsewhere"])
def test_a_service_made_by_hand_elsewhere_gains_nothing(
    beside: tuple[Proxy, Running], upstream: Upstream, worn: str
) -> None:
    """With a tenant's labels, or its own, in a namespace that is no tenant's: it has no host, and takes nobody's."""
    served, routes = beside
    theirs = Upstream()
    theirs.body = b"made by hand"
    shown = browser("data", "elsewhere", labels=labels("browser", "data", worn))
    port = unit("trainer", "elsewhere", "lab", labels=labels("unit", "trainer", worn))
    for made, name in ((shown, "http"), (port, "lab")):
        routes.cluster.put_whole(SERVICES, made)
        routes.cluster.put_whole(SLICES, endpoint_slice(made, {name: theirs.port}, endpoint("elsewhere", "127.0.0.1")))
    put_browser(routes.cluster, "later", "lab-a", port=upstream.port)
    waits(served, 200, "/storage/lab-a/later/", f"later--lab-a.{HOST}")
    for host in (f"data--elsewhere.{HOST}", f"lab--trainer--elsewhere.{HOST}", f"elsewhere.{HOST}"):
        assert served.status("/storage/elsewhere/data/", host, headers=ALICE) == 401
    for path, host in ((f"{ROOT}/", DATA), ("/", LAB)):
        assert b"made by hand" not in served.ask(path, host, headers=ALICE).body
    written = "".join((routes.into / name).read_text() for name in (CLUSTERS_FILE, ROUTES_FILE))
    assert "elsewhere" not in written
    assert f'"port_value":{theirs.port}' not in written
    theirs.end()


def test_an_address_that_envoy_would_refuse_stops_nobody(beside: tuple[Proxy, Running], upstream: Upstream) -> None:
    """One that is no pod's is left out, whoever wrote it down, and everybody's news go on."""
    served, routes = beside
    waits(served, 200, "/", LAB)
    odd = endpoint_slice(unit("trainer", "lab-a", "lab"), {"lab": 80}, endpoint("lab-a", "fe80::1%eth0"), suffix="odd")
    routes.cluster.put_whole(SLICES, odd)
    put_browser(routes.cluster, "later", "lab-a", port=upstream.port)
    waits(served, 200, "/storage/lab-a/later/", f"later--lab-a.{HOST}")


def test_a_port_leads_to_no_pod_of_another_tenant(beside: tuple[Proxy, Running]) -> None:
    """Where a slice of one tenant has an address that one of another has, no port is led there; files are."""
    served, routes = beside
    waits(served, 200, "/", LAB)
    put_tenant(routes.cluster, "lab-b", "bob", password="another")
    put_browser(routes.cluster, "data", "lab-b")
    waits(served, 503, "/", LAB)
    assert served.status(f"{ROOT}/", DATA, headers=ALICE) == 200
    routes.cluster.remove(SLICES, "browser-data-x7d2k", "lab-b")
    waits(served, 200, "/", LAB)


def test_while_the_cluster_is_away_the_last_view_is_served(beside: tuple[Proxy, Running]) -> None:
    """An API server that is away changes nothing; what happened meanwhile counts when it is back."""
    served, routes = beside
    waits(served, 200, f"{ROOT}/", DATA)
    port = routes.api.port
    routes.api.end()
    wait_for(lambda: len(routes.process.events("cluster-away")) == 4, "all four kinds are missed")
    assert served.status(f"{ROOT}/", DATA, headers=ALICE) == 200
    routes.cluster.remove(SERVICES, "browser-data", "lab-a")
    routes.start_api(port)
    waits(served, 404, f"{ROOT}/", DATA)


def test_it_tells_how_old_its_view_is(beside: tuple[Proxy, Running]) -> None:
    """Beside Envoy's own numbers: while the API server is away it grows, and once it is back it is young again."""
    served, routes = beside
    waits(served, 200, "/", INDEX)
    wait_for(lambda: age(served) < 2, "a young view", PATIENCE)
    port = routes.api.port
    routes.api.end()
    wait_for(lambda: age(served) > 4, "an old view", PATIENCE)
    assert served.status("/", INDEX, headers=ALICE) == 200
    routes.start_api(port)
    wait_for(lambda: age(served) < 2, "a young view again", PATIENCE)


def age(served: Proxy) -> float:
    """Give the age of the view in seconds, as Prometheus reads it."""
    told = plain(served.places.health, "/metrics/routes").body.decode()
    return float(told.splitlines()[-1].removeprefix("gpu_runtime_routes_view_age_seconds "))


def test_before_its_first_view_it_writes_nothing(tmp_path: Path, authority: Authority, upstream: Upstream) -> None:
    """As long as one of the four kinds may not be read, there is no file, and so no Envoy; a restart keeps both."""
    into = tmp_path / "files"
    into.mkdir()
    routes = a_cluster_of(tmp_path, authority, into, upstream)
    try:
        wait_for((into / ROUTES_FILE).exists, "the first view")
        assert (into / CLUSTERS_FILE).exists()
        before = (into / ROUTES_FILE).read_text()
        port = routes.api.port
        routes.end()
        (into / ROUTES_FILE).rename(into / "aside")
        routes.start()
        wait_for(lambda: len(routes.process.events("cluster-away")) == 4, "the API server is missed")
        assert not (into / ROUTES_FILE).exists()
        routes.start_api(port)
        wait_for((into / ROUTES_FILE).exists, "the first view")
        assert (into / ROUTES_FILE).read_text() == before
    finally:
        routes.end()


def test_a_volume_that_is_full_ends_nothing(beside: tuple[Proxy, Running]) -> None:
    """What was served is served on, no half file is left, and once there is room what happened meanwhile counts."""
    served, routes = beside
    waits(served, 200, f"{ROOT}/", DATA)
    before, _ = resource.prlimit(routes.process.popen.pid, resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
    for number in range(100):
        put_browser(routes.cluster, f"many-{number}", "lab-a")
    wait_for(lambda: routes.process.events("cannot-write"), "it cannot write")
    assert served.status(f"{ROOT}/", DATA, headers=ALICE) == 200
    assert not list(routes.into.glob(".*.new"))
    resource.prlimit(routes.process.popen.pid, resource.RLIMIT_FSIZE, (before, resource.RLIM_INFINITY))
    waits(served, 302, "/", f"many-99--lab-a.{HOST}")
    assert len(routes.process.events("cannot-write")) == 1
    assert len(routes.process.events("following")) == 1


def test_it_only_reads_and_only_ours(beside: tuple[Proxy, Running]) -> None:
    """Four kinds by our labels, Secrets in one namespace alone; no password is in its log."""
    served, routes = beside
    waits(served, 200, "/", INDEX)
    assert {path.partition("?")[0] for path in routes.cluster.asked} == {NAMESPACES, SERVICES, SLICES, SECRETS}
    assert SECRETS_KIND.path == SECRETS
    assert all("labelSelector=app.kubernetes.io%2Fpart-of%3Dgpu-runtime" in path for path in routes.cluster.asked)
    assert "SHA" not in routes.process.text
    assert PASSWORD not in routes.process.text


def test_a_thousand_storages(beside: tuple[Proxy, Running]) -> None:
    """With twenty users, and people of an issuer; one more is there soon after, and what was served is served on."""
    served, routes = beside
    waits(served, 200, f"{ROOT}/", DATA)
    people = secret("lab-a", htpasswd("alice", *(f"user-{number}" for number in range(20))))
    claims = json.dumps({"email": [f"user-{number}@example.com" for number in range(20)]})
    people["data"]["claims"] = base64.b64encode(claims.encode()).decode()
    routes.cluster.put_whole(SECRETS, people)
    before, begun = routes.written, time.monotonic()
    for number in range(1000):
        put_browser(routes.cluster, f"many-{number}", "lab-a")
    waits(served, 302, "/", f"many-999--lab-a.{HOST}")
    first = time.monotonic() - begun
    writes = routes.written - before
    begun = time.monotonic()
    put_browser(routes.cluster, "one-more", "lab-a")
    waits(served, 302, "/", f"one-more--lab-a.{HOST}")
    second = time.monotonic() - begun
    said = routes.process.events("written")[-1]
    resident = _resident(routes.process.popen.pid)
    print(f"1,000 in {first:.1f} s and {writes} writes, one more in {second:.1f} s; {said}; {resident} KiB")  # noqa: T201
    assert served.status(f"{ROOT}/", DATA, headers=ALICE) == http.HTTPStatus.OK
    assert writes < 30
    assert sum(said["bytes"].values()) < 4_000_000
    assert resident < 192 * 1024


def _resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
