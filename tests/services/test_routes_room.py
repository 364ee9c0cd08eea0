"""What many people at many hosts take: of the memory of `routes`, and of the volume that its files are in."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from routes.__main__ import ROUTES, Writer
from routes.envoy import HEAVIEST, clusters_json, routes_json, size, weight
from routes.files import Files
from routes.hosts import Site
from routes.room import MOST, fitting
from routes.things import Address
from routes.view import Port, Storage, Tenant, View
from watching.api_server import ApiServer
from watching.follow import Follower

from components import access
from components.model import bytes_of
from components.routes import FILES_SIZE
from tests.services.cluster import browser, htpasswd, labels, namespace, secret

SITE = Site("files.example.com", 443)

AT_MOST = 160 << 20
"""Bytes of address space, Python's own 40 MiB included: what follows the cluster has the rest of its container's."""

CODE = f"""
import json, resource, sys
from routes.envoy import clusters_json, routes_json
from routes.hosts import Site
from routes.things import Address
from routes.view import Storage, Tenant
resource.setrlimit(resource.RLIMIT_AS, ({AT_MOST}, {AT_MOST}))
hosts, people, lines = json.loads(sys.stdin.read())
at = (Address("10.0.0.5", 5000),)
storages = tuple(Storage(f"data-{{n}}", "1Gi", None, at) for n in range(hosts))
claims = (("email", tuple(f"somebody-{{n}}@example.com" for n in range(people))),) if people else ()
tenant = Tenant("lab-a", "lab-a", lines, storages, claims=claims)
print(json.dumps([len(clusters_json([tenant])), len(routes_json([tenant], Site("files.example.com", 443)))]))
"""


def sizes(hosts: int, people: int, users: int) -> tuple[int, int]:
    """Give the bytes of both files, made by the service's own module in as much memory as it has."""
    asked = json.dumps([hosts, people, htpasswd(*(f"user-{number}" for number in range(users)))])
    path = str(Path(__file__).parents[2] / "services")
    argv = [sys.executable, "-c", CODE]
    done = subprocess.run(argv, input=asked, check=False, text=True, capture_output=True, env={"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr[-500:]
    clusters, routes = json.loads(done.stdout)
    return clusters, routes


@pytest.mark.parametrize(("hosts", "people", "users"), [(1000, 50, 20), (1000, 200, 0), (5000, 0, 90)])
def test_many_people_at_many_hosts_have_room(hosts: int, people: int, users: int) -> None:
    """Both files are made in the memory that there is, and lie twice each in the volume."""
    assert sum(sizes(hosts, people, users)) < MOST
    assert bytes_of(FILES_SIZE) > 2 * MOST


def test_people_of_an_issuer_are_said_once() -> None:
    """However many hosts their tenant has: a thousand more add as much with two hundred people as with one."""
    few, many = (sizes(1000, people, 1)[1] - sizes(10, people, 1)[1] for people in (1, 200))
    assert many == few


def a_tenant(name: str, users: int, storages: int, claims: dict[str, list[str]]) -> Tenant:
    """Give a tenant with so many users and storages, one port, and these claims."""
    at = (Address("10.0.0.5", 5000),)
    lines = htpasswd(*(f"user-{number}" for number in range(users)))
    shown = tuple(Storage(f"data-{number}", "1Gi", None, at) for number in range(storages))
    said = tuple((claim, tuple(values)) for claim, values in claims.items())
    return Tenant(name, name, lines, shown, (Port("trainer", "lab", at),), claims=said)


def test_the_preview_counts_as_routes_does() -> None:
    """What the stack file may say, `routes` serves; what it would not serve is refused before."""
    people: dict[str, list[str]] = {"email": ["a@example.com", "bb@example.com"], "groups": ["team"]}
    said = [f"user-{number}" for number in range(7)]

    assert access.HEAVIEST == HEAVIEST
    assert access.weight(said, people, 2 + 3 + 1) == weight(a_tenant("lab-a", 7, 3, people))


def test_a_weight_is_about_the_bytes() -> None:
    """It does not promise room that is not there: users and claims take as much, within a tenth."""
    people = {"groups": [f"group-{number}" for number in range(100)]}
    heavy, light = a_tenant("lab-a", 50, 500, people), a_tenant("lab-a", 0, 500, {})
    added = len(routes_json([heavy], SITE)) - len(routes_json([light], SITE))

    assert 0.8 < weight(heavy) / added < 1.1


def served(tenants: list[Tenant], most: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Give the namespaces that have room within *most* bytes, and owner and namespace of those that have not."""
    found, left = fitting(tenants, SITE, most)
    return [one.namespace for one in found], [(one.owner, one.namespace) for one in left]


def of(owner: str, name: str, users: int, storages: int) -> Tenant:
    """Give a tenant of *owner*."""
    return a_tenant(name, users, storages, {})._replace(owner=owner)


def test_who_takes_least_is_served_where_all_take_too_much() -> None:
    """The heaviest of the stack that takes most goes, and one more if need be; whose others take little stay."""
    dev = [of("dev", "dev-large", 100, 300), of("dev", "dev-small", 1, 1)]
    guest = [of("guest", "guest-large", 100, 200), of("guest", "guest-small", 1, 1)]
    both = [*dev, *guest]
    whole = sum(size(one, SITE) for one in both)

    assert served(both, whole) == ([one.namespace for one in both], [])
    assert served(both, whole - 1) == (["dev-small", "guest-large", "guest-small"], [("dev", "dev-large")])
    gone = [("dev", "dev-large"), ("guest", "guest-large")]
    assert served(both, size(guest[0], SITE)) == (["dev-small", "guest-small"], gone)
    assert served(both[::-1], size(guest[0], SITE)) == (["guest-small", "dev-small"], gone)


def test_a_stack_of_many_loses_no_more_than_it_must() -> None:
    """Of equals the last by name goes; the lighter stack keeps all."""
    dev, guest = [of("dev", f"dev-{n}", 10, 10) for n in range(5)], [of("guest", "guest", 10, 10)]
    all_but_two = sum(size(one, SITE) for one in dev[:3]) + size(guest[0], SITE)

    assert served([*dev, *guest], all_but_two) == (
        ["dev-0", "dev-1", "dev-2", "guest"],
        [("dev", "dev-4"), ("dev", "dev-3")],
    )


def test_the_room_is_counted_in_bytes_of_the_files() -> None:
    """What has room has it: nothing in the files is beside the count but their first and last words."""
    tenants = [of("dev", f"lab-{n}", 20, 100) for n in range(3)]
    tenants[1] = tenants[1]._replace(claims=(("groups", tuple(f"group-{n}" for n in range(200))),))
    files = len(routes_json(tenants, SITE)) + len(clusters_json(tenants))

    assert 0 < files - sum(size(one, SITE) for one in tenants) < 1000


def two_stacks() -> View:
    """Give a cluster of two stacks that are too heavy together, each with light tenants beside its heavy ones."""
    storages = {f"{owner}-{n}": 600 for owner in ("dev", "guest") for n in range(3)}
    owners = {name: name.partition("-")[0] for name in (*storages, "dev-light", "guest-light")}
    lines = htpasswd(*(f"{number:064}" for number in range(100)))
    view = View(())
    view.slices.replace([])
    view.namespaces.replace([namespace(name, owner) for name, owner in owners.items()])
    view.secrets.replace(
        [secret(name, lines if name in storages else htpasswd("alice"), owners[name]) for name in owners]
    )
    shown = [(name, f"data-{n}", owner) for name, owner in owners.items() for n in range(storages.get(name, 1))]
    view.services.replace([browser(s, name, labels=labels("browser", s, name, owner)) for name, s, owner in shown])
    return view


def test_two_stacks_that_are_too_heavy_together_shut_out_nobody_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has room is written, news of the others go on, and the log has one line for each who is not served."""
    view, site = two_stacks(), Site("files.test", 443)
    followers = [Follower(ApiServer("127.0.0.1", 1, tmp_path, tmp_path), table) for table in view.tables]
    writer = Writer(view, followers, frozenset({"dev", "guest"}), site, Files(tmp_path))
    writer.look()
    (found,) = json.loads((tmp_path / ROUTES).read_text())["resources"]
    domains = {host["domains"][0] for host in found["virtual_hosts"]}
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    gone = {line["namespace"]: line["owner"] for line in said if line["event"] == "no-room"}

    assert {f"data-0--{name}.files.test" for name in ("dev-light", "guest-light")} <= domains
    assert gone == {"guest-2": "guest", "dev-2": "dev"}
    assert not [domain for domain in domains if domain.endswith(("dev-2.files.test", "guest-2.files.test"))]

    view.secrets.change("MODIFIED", secret("dev-light", htpasswd("bob")))
    for _ in range(2):
        writer.look()
    assert "bob:" in (tmp_path / ROUTES).read_text()
    assert [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()] == ["written"]
