"""The gate follows the cluster, through everything that an API server does to those who watch it."""

import http
import time
from pathlib import Path

from tests.services.api import NAMESPACES, SERVICES, ApiServer, Store
from tests.services.world import (
    Authority,
    Gate,
    add_namespace,
    add_unit,
    claim,
    holds,
    labels,
    metas,
    remove_unit,
    wait_for,
)

LATE = claim("late")
LOGIN = {"version": "0.70.1", "client_spec": {}, "pool_count": 1, "client_address": "a:1"}


def allows(gate: Gate, unit: str = "trainer", namespace: str = "lab-a", owner: str = "dev") -> bool:
    """Tell whether the gate lets a unit log in."""
    status, answer = gate.ask("Login", {**LOGIN, "metas": metas(claim(unit, namespace, owner))})
    return status == http.HTTPStatus.OK and answer["reject"] is False


def test_a_unit_counts_from_its_beginning_to_its_end(gate: Gate) -> None:
    """A Service that appears lets its unit in, and one that goes refuses it, at once."""
    assert not allows(gate, "late")
    add_unit(gate.cluster, LATE)
    wait_for(lambda: allows(gate, "late"), "the new unit is let in")
    remove_unit(gate.cluster, LATE)
    wait_for(lambda: not allows(gate, "late"), "the unit that is gone is refused")
    assert allows(gate)


def test_a_namespace_that_changes_hands_takes_its_units_along(gate: Gate) -> None:
    """When the owner's label goes, so does every unit in it."""
    add_namespace(gate.cluster, "lab-a", "prod")
    wait_for(lambda: not allows(gate), "the unit is refused")


def test_a_service_made_by_hand_gains_nothing(gate: Gate) -> None:
    """With all our labels and a good host, but in a namespace that is not the stack's, it is no unit."""
    by_hand = claim("trainer", "somewhere")
    gate.cluster.put(NAMESPACES, "somewhere", labels={"app.kubernetes.io/part-of": "gpu-runtime"})
    add_unit(gate.cluster, by_hand)
    add_unit(gate.cluster, LATE)  # comes after it, so that it was seen when this one is
    wait_for(lambda: allows(gate, "late"), "the gate saw both")
    assert not allows(gate, "trainer", "somewhere")


def test_while_the_cluster_is_away_the_last_view_counts(gate: Gate) -> None:
    """An API server that is away changes nothing; once it is back, what happened meanwhile counts."""
    port = gate.api.port
    gate.api.end()
    wait_for(lambda: gate.process.events("cluster-away"), "the gate notices")
    assert allows(gate)
    assert gate.is_ready()
    remove_unit(gate.cluster, claim())
    add_unit(gate.cluster, LATE)
    gate.start_api(port)
    wait_for(lambda: allows(gate, "late"), "the gate is up to date")
    assert not allows(gate)
    assert gate.process.events("cluster-back")


def test_before_its_first_view_it_refuses_all(gate: Gate) -> None:
    """A gate that starts while the API server is away answers, is not ready, and lets nobody in until it has seen."""
    port = gate.api.port
    gate.end()
    gate.start(ready=False)
    holds(lambda: not gate.is_ready() and not allows(gate), "unready, and everybody is refused", 1)
    gate.start_api(port)
    wait_for(gate.is_ready, "the gate is ready")
    assert allows(gate)


def test_a_version_that_is_gone_is_listed_anew(gate: Gate) -> None:
    """After 410 Gone the whole is read again: a removal that no event told of counts, too."""
    before = len(gate.process.events("listed"))
    del gate.cluster.objects[SERVICES, "lab-a", "unit-trainer"]
    gate.cluster.compact()
    wait_for(lambda: not allows(gate), "the removal is seen")
    assert len(gate.process.events("listed")) > before
    assert allows(gate, "other")


def test_it_knows_a_large_cluster(tmp_path: Path, authority: Authority) -> None:
    """Thousands of namespaces and units come in pages, the last of them counts, and memory stays small."""
    store = Store()
    for number in range(2000):
        namespace = f"tenant-{number}"
        store.put(NAMESPACES, namespace, labels=labels("dev", "tenant"), more="x" * 2000)
        add_unit(store, claim("trainer", namespace))
    gate = Gate(tmp_path, authority, cluster=store)
    try:
        assert all(allows(gate, "trainer", f"tenant-{number}") for number in (0, 999, 1999))
        lists = [path for path in store.asked if path.startswith(SERVICES) and "watch" not in path]
        assert len(lists) == 20
        status = Path(f"/proc/{gate.process.popen.pid}/status").read_text()
        (resident,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        assert resident < 96 * 1024
    finally:
        gate.end()


def test_a_rotated_token_is_read_again(gate: Gate) -> None:
    """A token that is refused changes nothing of the view, and the next one in the file is used."""
    gate.cluster.token = "the-next-token"
    wait_for(lambda: gate.process.events("cluster-away"), "the old token is refused")
    assert allows(gate)
    (gate.folder / "api" / "token").write_text("the-next-token\n")
    add_unit(gate.cluster, LATE)
    wait_for(lambda: allows(gate, "late"), "the new token is used")
    assert "token" not in gate.process.text


def test_another_api_server_is_not_believed(gate: Gate, tmp_path: Path) -> None:
    """A server whose certificate is of another authority tells nothing: the gate stays unready."""
    port, right = gate.api.port, gate.authority.ca
    gate.end()
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "other")
    gate.api = ApiServer(gate.cluster, gate.folder / "api", right, other.issue("api"), port)
    before = len(gate.cluster.asked)
    gate.start(ready=False)
    wait_for(lambda: gate.process.events("cluster-away"), "the gate complains")
    holds(lambda: not gate.is_ready(), "the gate is not ready", 1)
    assert len(gate.cluster.asked) == before


def test_a_watch_that_ends_at_once_is_not_asked_for_forever(gate: Gate) -> None:
    """An API server, or a proxy before it, that ends every watch is asked less and less often."""
    gate.cluster.watch_seconds = 0
    wait_for(lambda: gate.process.events("cluster-away"), "the gate complains")
    before = len(gate.cluster.asked)
    time.sleep(2)
    assert len(gate.cluster.asked) - before < 20


def test_it_only_reads(gate: Gate) -> None:
    """All that it asks for are two kinds, by our labels."""
    assert {path.partition("?")[0] for path in gate.cluster.asked} == {NAMESPACES, SERVICES}
    assert all("labelSelector=app.kubernetes.io%2Fpart-of%3Dgpu-runtime" in path for path in gate.cluster.asked)
