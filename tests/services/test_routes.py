"""What the proxy is told of a cluster: the files as a function of its objects."""

import ipaddress
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from routes import hosts, things
from routes.envoy import clusters_json, routes_json
from routes.hosts import Site
from routes.view import View

from components import access, names
from components.browser import browser_manifests
from components.browser_spec import BrowserSpec
from stacks import web_checks
from tests.components.test_objects import STORAGE
from tests.services.api import selects
from tests.services.cluster import (
    browser,
    endpoint,
    endpoint_slice,
    htpasswd,
    labels,
    namespace,
    secret,
    unit,
)

Json = dict[str, Any]

SITE = Site("files.test", 443)
OWNERS = frozenset({"dev", "guest"})
PODS = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "127.0.0.0/8", "fe80::/10")))
DATA, TRAINER = browser("data", "lab-a"), unit("trainer", "lab-a", "lab,tb")


def a_view(
    namespaces: list[Json] | None = None,
    services: list[Json] | None = None,
    slices: list[Json] | None = None,
    secrets: list[Json] | None = None,
) -> View:
    """Return a view of one tenant with a storage and a unit, but for what is given."""
    view = View(PODS)
    view.namespaces.replace([namespace("lab-a")] if namespaces is None else namespaces)
    view.services.replace([DATA, TRAINER] if services is None else services)
    ours = [
        endpoint_slice(DATA, {"http": 5000}, endpoint("lab-a", "10.0.0.5")),
        endpoint_slice(TRAINER, {"lab": 8888, "tb": 6006}, endpoint("lab-a", "10.0.0.6")),
    ]
    view.slices.replace(ours if slices is None else slices)
    view.secrets.replace([secret("lab-a", htpasswd("alice"))] if secrets is None else secrets)
    return view


def hosts_of(view: View, owners: frozenset[str] = OWNERS) -> dict[str, Json]:
    """Return the virtual hosts that a view makes, by domain."""
    (found,) = json.loads(routes_json(view.tenants(owners), SITE))["resources"]
    return {host["domains"][0]: host for host in found["virtual_hosts"]}


def clusters_of(view: View) -> dict[str, list[str]]:
    """Return the addresses that a view makes, by cluster."""
    found = json.loads(clusters_json(view.tenants(OWNERS)))["resources"]
    return {one["name"]: [_address(e) for e in one["load_assignment"]["endpoints"][0]["lb_endpoints"]] for one in found}


def _address(endpoint: Json) -> str:
    said = endpoint["endpoint"]["address"]["socket_address"]
    return f"{said['address']}:{said['port_value']}"


def origins(tenant: str, *labels: str) -> set[str]:
    """Return the hosts of a tenant with these: its index, what it has not, and each."""
    return {f"{tenant}.files.test", *(f"{label}--{tenant}.files.test" for label in ("*", *labels))}


ALL = origins("lab-a", "data", "lab--trainer", "tb--trainer")


def test_every_storage_and_port_has_an_origin() -> None:
    """A tenant has an index, each storage and each port that is exposed a host of its own, and pods behind it."""
    assert set(hosts_of(a_view())) == ALL
    assert clusters_of(a_view()) == {
        "storage/lab-a/data": ["10.0.0.5:5000"],
        "port/lab-a/trainer/lab": ["10.0.0.6:8888"],
        "port/lab-a/trainer/tb": ["10.0.0.6:6006"],
    }


def test_each_origin_has_its_tenants_users_alone() -> None:
    """Every virtual host says who may come in, and nobody of another tenant is among them."""
    bob = [secret("lab-a", htpasswd("alice")), secret("lab-b", htpasswd("bob"))]
    view = a_view([namespace("lab-a"), namespace("lab-b")], [DATA, browser("data", "lab-b")], [], bob)
    users = {
        name: host["typed_per_filter_config"]["envoy.filters.http.basic_auth"]["users"]["inline_string"]
        for name, host in hosts_of(view).items()
    }
    assert {name: said.partition(":")[0] for name, said in users.items()} == {
        "lab-a.files.test": "alice",
        "*--lab-a.files.test": "alice",
        "data--lab-a.files.test": "alice",
        "lab-b.files.test": "bob",
        "*--lab-b.files.test": "bob",
        "data--lab-b.files.test": "bob",
    }


NOBODYS: dict[str, dict[str, list[Json]]] = {
    "namespace gone": {"namespaces": []},
    "namespace of another stack": {"namespaces": [namespace("lab-a", "prod")]},
    "namespace of an admitted stack, objects of another": {"namespaces": [namespace("lab-a", "guest")]},
    "namespace of nobody": {"namespaces": [{"metadata": {"name": "lab-a"}}]},
    "namespace of no tenant": {"namespaces": [{"metadata": {"name": "lab-a", "labels": {"gpu-runtime/owner": "dev"}}}]},
    "namespace being deleted": {"namespaces": [namespace("lab-a", deletionTimestamp="2026-11-21T00:00:00Z")]},
    "no passwords": {"secrets": []},
    "passwords of another stack": {"secrets": [secret("lab-a", htpasswd("alice"), "prod")]},
    "passwords elsewhere": {"secrets": [secret("lab-a", htpasswd("alice"), namespace="lab-a")]},
    "passwords being deleted": {"secrets": [secret("lab-a", htpasswd("alice"), deletionTimestamp="2026")]},
    "passwords of nobody": {"secrets": [secret("lab-a", "")]},
}


@pytest.mark.parametrize("said", NOBODYS.values(), ids=NOBODYS.keys())
def test_what_is_nobodys_has_no_origin(said: dict[str, list[Json]]) -> None:
    """Without a namespace of a stack that is shown, or without its passwords, there is no host: everybody gets 401."""
    assert hosts_of(a_view(**said)) == {}
    assert clusters_of(a_view(**said)) == {}


def test_admitted_stacks_are_shown_and_no_others() -> None:
    """Owners are said to routes; what another stack labels is not shown."""
    guest = a_view(
        [namespace("lab-a", "guest")],
        [browser("data", "lab-a", labels=labels("browser", "data", "lab-a", "guest"))],
        [],
        [secret("lab-a", htpasswd("alice"), "guest")],
    )
    assert set(hosts_of(guest)) == origins("lab-a", "data")
    assert hosts_of(guest, frozenset({"dev"})) == {}


IMPOSTORS: dict[str, Json] = {
    "in another namespace": browser("data", "elsewhere"),
    "in a namespace without tenant": browser("data", "kube-system"),
    "of another name": browser("data", "lab-a", name="files-data"),
    "of another instance": browser("data", "lab-a", labels=labels("browser", "other", "lab-a")),
    "of another stack": browser("data", "lab-a", labels=labels("browser", "data", "lab-a", "prod")),
    "of another tenant": browser("data", "lab-a", labels=labels("browser", "data", "lab-b")),
    "of another component": browser("data", "lab-a", labels=labels("gate", "data", "lab-a")),
    "that joins names": browser("data--x", "lab-a"),
    "with dots": browser("data.files.test", "lab-a"),
    "in upper case": browser("Data", "lab-a"),
    "with a star": browser("*", "lab-a"),
    "of another alphabet": browser("xn", "lab-a"),
    "too long": browser("d" * 58, "lab-a"),
    "being deleted": browser("data", "lab-a", deletionTimestamp="2026-11-21T00:00:00Z"),
    "with labels that are no text": browser("data", "lab-a", labels={"gpu-runtime/owner": 7}),
    "with nothing": {"metadata": None},
}


@pytest.mark.parametrize("service", IMPOSTORS.values(), ids=IMPOSTORS.keys())
def test_a_service_made_by_hand_gains_nothing(service: Json) -> None:
    """Labels alone make no origin: name, owner and tenant must be those of the namespace that it is in."""
    assert set(hosts_of(a_view(services=[service]))) == origins("lab-a")


def test_a_namespace_that_joins_names_has_no_origin() -> None:
    """`b--lab` with storage `a` would have the host of port `a` of unit `b` in `lab`."""
    odd = a_view([namespace("b--lab")], [browser("a", "b--lab")], [], [secret("b--lab", htpasswd("alice"))])
    assert hosts_of(odd) == {}


ODD_LINES = {
    "plain password": "alice:secret",
    "other hash": "alice:$apr1$x$y",
    "short hash": "alice:{SHA}AAAA",
    "twice": htpasswd("alice", "alice"),
    "empty name": ":{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
    "colon in the name": "a:b:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
    "quote": '"a":{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=',
    "not ascii": "alicé:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
    "one of two": htpasswd("alice") + "bob\n",
}


@pytest.mark.parametrize("lines", ODD_LINES.values(), ids=ODD_LINES.keys())
def test_passwords_that_envoy_would_refuse_are_nobodys(lines: str) -> None:
    """One tenant's odd Secret shuts that tenant out and no other: Envoy would refuse everybody's routes with it."""
    both = [secret("lab-a", lines), secret("lab-b", htpasswd("bob"))]
    view = a_view([namespace("lab-a"), namespace("lab-b")], [DATA, browser("data", "lab-b")], [], both)
    assert set(hosts_of(view)) == origins("lab-b", "data")


def test_as_many_users_come_in_as_a_stack_file_names() -> None:
    """The preview refuses one more, and what was made by hand with one more is nobody's."""
    assert things.MOST_USERS == access.MOST_USERS
    for more, origins in ((0, ALL), (1, set())):
        users = htpasswd(*(f"user-{number}" for number in range(access.MOST_USERS + more)))
        assert set(hosts_of(a_view(secrets=[secret("lab-a", users)]))) == origins


def test_an_annotation_has_an_end() -> None:
    """One object of one tenant cannot fill the volume that everybody's routes are in."""
    assert things.MOST_PORTS == web_checks.MOST_PORTS
    for more in (0, 1):
        ports = ",".join(f"p{number}" for number in range(things.MOST_PORTS + more))
        assert len(hosts_of(a_view(services=[unit("trainer", "lab-a", ports)]))) == (
            2 if more else things.MOST_PORTS + 2
        )
        mounts = json.dumps({"data": ""}).replace('""', f'"{"x" * (things.LONGEST_MOUNTS + more - 12)}"')
        long = [unit("trainer", "lab-a", "", mounts), browser("data", "lab-a", "9" * (things.LONGEST_SIZE + more))]
        index = json.dumps(hosts_of(a_view(services=long))["lab-a.files.test"])
        port = unit("trainer", "lab-a", "p".ljust(things.LONGEST_WEB + more, ","))
        assert len(hosts_of(a_view(services=[port]))) == (2 if more else 3)
        assert ("xxxx" in index, "9999" in index) == (not more, not more)


@pytest.mark.parametrize(
    "said", [r'{"data": "/\ud800"}', r'{"data": "/a\nb"}', '{"data": "/é"}', '{"data": 1}', "[]", "{", "[" * 9000]
)
def test_an_annotation_that_no_program_of_ours_wrote_shows_nothing(said: str) -> None:
    """Half a character in one tenant's page would keep everybody's routes from being written."""
    index = json.dumps(hosts_of(a_view(services=[unit("trainer", "lab-a", "", said), DATA]))["lab-a.files.test"])
    assert "rsync" not in index
    assert "data--lab-a" in index


ODD_SLICES: dict[str, Json] = {
    "not ready": endpoint_slice(DATA, {"http": 5000}, endpoint("lab-a", "10.0.0.5", ready=False)),
    "readiness unknown": endpoint_slice(DATA, {"http": 5000}, endpoint("lab-a", "10.0.0.5", conditions={})),
    "a pod elsewhere": endpoint_slice(DATA, {"http": 5000}, endpoint("lab-b", "10.0.0.5")),
    "no pod": endpoint_slice(DATA, {"http": 5000}, endpoint("lab-a", "10.0.0.5", targetRef=None)),
    "another port": endpoint_slice(DATA, {"ssh": 22}, endpoint("lab-a", "10.0.0.5")),
    "a name": endpoint_slice(DATA, {"http": 5000}, endpoint("lab-a", "metadata.internal")),
    "a path": endpoint_slice(DATA, {"http": 5000}, endpoint("lab-a", "/run/admin.sock")),
    "a node's address for what runs on it": endpoint_slice(DATA, {"http": 80}, endpoint("lab-a", "169.254.169.254")),
    "an address of a node": endpoint_slice(DATA, {"http": 6443}, endpoint("lab-a", "192.168.1.1")),
    "a zone": endpoint_slice(DATA, {"http": 5000}, endpoint("lab-a", "fe80::1%eth0")),
    "IPv4 written as IPv6": endpoint_slice(DATA, {"http": 5000}, endpoint("lab-a", "::ffff:10.0.0.5")),
    "no port": endpoint_slice(DATA, {"http": 0}, endpoint("lab-a", "10.0.0.5")),
    "of another Service": endpoint_slice(TRAINER, {"http": 5000}, endpoint("lab-a", "10.0.0.5")),
}


@pytest.mark.parametrize("one", ODD_SLICES.values(), ids=ODD_SLICES.keys())
def test_only_ready_pods_of_the_namespace_are_asked(one: Json) -> None:
    """What is not surely a ready pod of the Service's own namespace is no endpoint: the proxy says 503."""
    view = a_view(services=[DATA], slices=[one])
    assert clusters_of(view) == {"storage/lab-a/data": []}
    assert "data--lab-a.files.test" in hosts_of(view)


FORGED = endpoint_slice(TRAINER, {"lab": 5000, "tb": 6006}, endpoint("lab-a", "10.0.0.7", "10.0.0.6"))
THEIRS = browser("data", "lab-b")


@pytest.mark.parametrize(("home", "left"), [("lab-b", 1), ("lab-a", 2), ("elsewhere", 2), ("prod", 2)])
@pytest.mark.parametrize("ready", [True, False])
def test_a_port_leads_to_no_address_that_another_tenant_has(home: str, left: int, *, ready: bool) -> None:
    """A slice that names another tenant's pod leads nobody there; what is in no tenant's namespace takes nothing."""
    theirs = endpoint_slice(browser("data", home), {"http": 5000}, endpoint(home, "10.0.0.7", ready=ready))
    owners = [namespace("lab-a"), namespace("lab-b"), namespace("prod", "prod")]
    secrets = [secret("lab-a", htpasswd("alice")), secret("lab-b", htpasswd("bob"))]
    view = a_view(owners, [TRAINER, THEIRS], [FORGED, theirs], secrets)
    found = clusters_of(view)

    assert found["port/lab-a/trainer/lab"] == ["10.0.0.6:5000", "10.0.0.7:5000"][:left]
    assert found["storage/lab-b/data"] == (["10.0.0.7:5000"] if home == "lab-b" and ready else [])


def test_several_slices_make_one_cluster() -> None:
    """A Service's slices are put together, in one order whichever came first."""
    slices = [
        endpoint_slice(DATA, {"http": 5000}, endpoint("lab-a", ip), suffix=ip[-1]) for ip in ("10.0.0.9", "10.0.0.7")
    ]
    assert clusters_of(a_view(services=[DATA], slices=slices)) == {
        "storage/lab-a/data": ["10.0.0.7:5000", "10.0.0.9:5000"]
    }


def test_the_same_cluster_makes_the_same_files() -> None:
    """Nothing depends on the order in which objects came."""
    view, other = a_view(), a_view(services=[TRAINER, DATA])
    assert routes_json(view.tenants(OWNERS), SITE) == routes_json(other.tenants(OWNERS), SITE)
    assert clusters_json(view.tenants(OWNERS)) == clusters_json(other.tenants(OWNERS))


def test_until_all_is_known_nothing_is() -> None:
    """Each of the four kinds must have been seen once."""
    view = View(PODS)
    for table in view.tables:
        assert view.state is None
        table.replace(())
    assert view.state is not None


def test_an_update_that_changes_nothing_is_none() -> None:
    """What Kubernetes writes into an object beside what counts is no change."""
    view = a_view()
    before = view.state
    view.services.change("MODIFIED", {**DATA, "metadata": {**DATA["metadata"], "resourceVersion": "9"}})
    assert view.state == before
    assert view.services.known is (before or ())[1]


@pytest.mark.parametrize("text", ["x", "0", "-1", "1Gi", "1e3", "٣", "9" * 30])
def test_what_is_no_number_of_bytes_lets_nobody_write(text: str) -> None:
    """Then the storage is read only: methods that write are refused."""
    view = a_view(services=[browser("data", "lab-a", upload=text)])
    assert "PUT" not in json.dumps(hosts_of(view)["data--lab-a.files.test"])
    assert "PUT" in json.dumps(hosts_of(a_view(services=[browser("data", "lab-a", upload="7")])))


def test_names_are_the_programs() -> None:
    """Hosts, labels and annotations are those that the components write."""
    assert things.SIZE_ANNOTATION == names.SIZE_ANNOTATION
    assert things.UPLOAD_ANNOTATION == names.UPLOAD_ANNOTATION
    assert things.WEB_ANNOTATION == names.WEB_ANNOTATION
    assert things.MOUNTS_ANNOTATION == names.MOUNTS_ANNOTATION
    assert things.HOST_ANNOTATION == names.HOST_ANNOTATION
    assert things.ACCESS_NAMESPACE == names.ACCESS_NAMESPACE
    assert (things.OWNER_LABEL, things.TENANT_LABEL) == (names.OWNER_LABEL, names.TENANT_LABEL)
    assert names.access("lab-a") == secret("lab-a", "")["metadata"]["name"]
    assert names.browser("data") == DATA["metadata"]["name"]


def test_browsers_are_found_as_the_program_writes_them() -> None:
    """The Service of a storage's browser is one that routes knows by labels, annotations and port."""
    said = BrowserSpec.model_validate({"upload": {"maxSize": "1Ki"}})
    spec = STORAGE.spec.model_copy(update={"browser": said})
    made = browser_manifests(replace(STORAGE, spec=spec, browser_image="dufs"))["browser-service"]
    assert selects(things.SERVICES.selector, made["metadata"])
    assert things.read_service(made) == things.Browser(things.Holder("test", "lab-a"), "dataset", "200Gi", 1024)
    assert [port["name"] for port in made["spec"]["ports"]] == [things.BROWSER_PORT]


def test_hosts_are_the_programs() -> None:
    """Both sides give the same origin and path, so that an address in the outputs is one that is served."""
    assert SITE.domain(hosts.storage_label("data", "lab-a")) == names.storage_host("data", "lab-a", SITE.host)
    assert SITE.domain(hosts.port_label("tb", "x", "lab-a")) == names.port_host("tb", "x", "lab-a", SITE.host)
    assert SITE.domain("lab-a") == names.index_host("lab-a", SITE.host)
    assert hosts.storage_path("data", "lab-a") == names.browser_path("lab-a", "data")


def test_time_and_size_grow_with_the_number_of_storages() -> None:
    """A thousand storages of many tenants are some megabytes, made within a fraction of the time that is allowed."""
    sizes = {}
    for count in (100, 1000):
        homes = [f"tenant-{number}" for number in range(count // 10)]
        browsers = [browser(f"data-{number}", home) for home in homes for number in range(10)]
        slices = [endpoint_slice(b, {"http": 5000}, endpoint(b["metadata"]["namespace"], "10.0.0.5")) for b in browsers]
        view = a_view(
            [namespace(home) for home in homes], browsers, slices, [secret(h, htpasswd("alice", "bob")) for h in homes]
        )
        begun = time.process_time()
        tenants = view.tenants(OWNERS)
        sizes[count] = len(routes_json(tenants, SITE)), len(clusters_json(tenants))
        assert time.process_time() - begun < 5
    print(f"bytes of routes and clusters: {sizes}")  # noqa: T201 - a figure for whoever asks with -s
    assert all(large < 11 * small for small, large in zip(sizes[100], sizes[1000], strict=True))
    assert sum(sizes[1000]) < 3_000_000
