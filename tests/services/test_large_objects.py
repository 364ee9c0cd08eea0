"""Objects as large as an API server takes, in a namespace of somebody who has nothing to do with us: they end nobody.

Whoever may write Services in any namespace of the cluster may give them our labels and a quarter MiB of annotations.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from routes.__main__ import ROUTES as ROUTES_FILE
from watching.api_server import LONGEST_PAGE, PAGE, GoneError, Kind
from watching.api_server import ApiServer as Client
from watching.table import Table

from components import gate as gate_pod
from components import routes as routes_pod
from components.model import Manifest
from tests.services.api import SERVICES, ApiServer, Store
from tests.services.cluster import browser, put_browser, put_tenant, unit
from tests.services.test_follow import allows
from tests.services.test_routes_served import Running
from tests.services.world import Authority, Gate, Process, a_cluster, add_unit, claim, wait_for

MANY = 300
FAT = {"note": "y" * 250_000 + "\U0001f600"}
"""As much as an object's annotations may be; one such character makes Python take four bytes for each of them."""

PAIRS = json.dumps({f"{number:x}": "" for number in range(1500)}, separators=(",", ":"))
"""Small enough to be read, as what a unit mounts."""

OURS = Kind(SERVICES, "app.kubernetes.io/part-of=gpu-runtime")


def add_fat(store: Store, number: int) -> None:
    """Put a Service into a foreign namespace that looks like a unit's, to the gate and to the proxy."""
    fat = unit(f"fat-{number:03}", "elsewhere", "", PAIRS)
    fat["metadata"]["annotations"] |= FAT
    store.put_whole(SERVICES, fat)


def peak(process: Process) -> int:
    """Give the most memory that a process has had, in bytes."""
    (kibibytes,) = re.findall(
        r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{process.popen.pid}/status").read_text(), re.MULTILINE
    )
    return 1024 * int(kibibytes)


def memory(resources: Manifest) -> int:
    """Give the memory that a container may have, in bytes."""
    return int(resources["limits"]["memory"].removesuffix("Mi")) * 2**20


@contextmanager
def serving(store: Store, folder: Path, authority: Authority) -> Iterator[Client]:
    """Serve *store*; give who asks for what is in it."""
    api = ApiServer(store, folder / "api", authority.ca, authority.issue("api"))
    try:
        yield Client("127.0.0.1", api.port, folder / "api/ca.crt", folder / "api/token")
    finally:
        api.end()


def names(client: Client) -> list[str]:
    """List the Services' names, in the order in which they come."""
    return [thing["metadata"]["name"] for page, _ in client.pages(OURS) for thing in page]


def limits(store: Store) -> list[int]:
    """Give for how many objects each request asked."""
    return [int(parse_qs(urlsplit(path).query)["limit"][0]) for path in store.asked]


def test_small_objects_come_in_few_requests(tmp_path: Path, authority: Authority) -> None:
    """A list of a thousand takes ten."""
    store = Store()
    for number in range(1000):
        store.put_whole(SERVICES, browser(f"data-{number:03}", "lab-a"))
    with serving(store, tmp_path, authority) as client:
        assert names(client) == [f"browser-data-{number:03}" for number in range(1000)]
    assert limits(store) == [PAGE] * 10


def test_large_objects_come_in_small_pages(tmp_path: Path, authority: Authority) -> None:
    """Each comes once, in its turn; behind them pages are as large as ever."""
    store = Store()
    for number in range(50):
        add_fat(store, number)
    for number in range(500):
        store.put_whole(SERVICES, browser(f"data-{number:03}", "lab-a"))
    with serving(store, tmp_path, authority) as client:
        assert names(client) == [meta["name"] for _, meta in sorted(store.objects.items())]
    asked = limits(store)
    assert len(asked) < 30
    assert asked[-1] == PAGE


def test_an_object_larger_than_a_page_comes_alone(tmp_path: Path, authority: Authority) -> None:
    """Whatever the API server takes is read, and what is beside it, too."""
    store = Store()
    for number in range(20):
        store.put_whole(SERVICES, browser(f"data-{number:03}", "lab-a"))
    store.put_whole(SERVICES, browser("data-010", "lab-a", annotations={"x": "y" * (LONGEST_PAGE + 1)}))
    with serving(store, tmp_path, authority) as client:
        assert len(names(client)) == 20
    assert 1 in limits(store)


def test_a_list_that_is_gone_half_way_changes_nothing(tmp_path: Path, authority: Authority) -> None:
    """No half of it is taken for the whole; the version that is gone is told, so that it is asked for anew."""
    store, table = Store(), Table(OURS, lambda thing: str(thing["metadata"]["name"]))
    for number in range(2 * PAGE):
        store.put_whole(SERVICES, browser(f"data-{number:03}", "lab-a"))

    def listed(client: Client) -> Iterator[Mapping[str, object]]:
        for page, _ in client.pages(OURS):
            yield from page
            store.compact()

    with serving(store, tmp_path, authority) as client, pytest.raises(GoneError):
        table.replace(listed(client))
    assert table.known is None
    assert len(store.asked) == 2


def test_routes_live_with_large_objects_of_others(tmp_path: Path, authority: Authority) -> None:
    """What there is, what comes and what follows a version that is gone is served, far below the container's limit."""
    store, into = Store(), tmp_path / "files"
    into.mkdir()
    put_tenant(store, "lab-a", "alice")
    put_browser(store, "data", "lab-a")
    for number in range(MANY):
        add_fat(store, number)
    routes = Running(tmp_path, authority, into, store)

    def serves(storage: str) -> bool:
        path = into / ROUTES_FILE
        return path.exists() and f"{storage}--lab-a" in path.read_text()

    try:
        wait_for(lambda: serves("data"), "the first view", 60)
        put_browser(store, "later", "lab-a")
        wait_for(lambda: serves("later"), "what comes", 60)
        for number in range(MANY):
            add_fat(store, number)
        store.compact()
        put_browser(store, "last", "lab-a")
        wait_for(lambda: serves("last"), "what comes after the version was gone", 60)
        assert not routes.process.events("cluster-away")
        assert peak(routes.process) < memory(routes_pod.RESOURCES) / 2
    finally:
        routes.end()


def test_the_gate_lives_with_large_objects_of_others(tmp_path: Path, authority: Authority) -> None:
    """It gets ready, knows who comes, and stays far below its container's limit."""
    store = a_cluster()
    for number in range(MANY):
        add_fat(store, number)
    gate = Gate(tmp_path, authority, cluster=store)
    try:
        assert allows(gate)
        add_unit(store, claim("late"))
        wait_for(lambda: allows(gate, "late"), "the new unit is let in", 60)
        assert not gate.process.events("cluster-away")
        assert peak(gate.process) < memory(gate_pod.RESOURCES) / 2
    finally:
        gate.end()
