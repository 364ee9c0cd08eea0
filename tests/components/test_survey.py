"""What is asked of the cluster about units, and what becomes of a no."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Event, Pod, Service
from lightkube.resources.discovery_v1 import EndpointSlice
from status.objects import Object
from status.states import NOT_READ, Phase, Ssh
from status.tier import ENTRANCE, GATE, SERVICE_LABEL

from components import names
from components.survey import EVERYWHERE, KEPT_SECONDS, Judged, Looker, Place, states, survey
from tests.status.objects import RUNNING, container, deployment, event, link, pod, unscheduled

WELL, ILL = Place("lab-a", "well"), Place("lab-b", "ill")
KEYS: Object = {"metadata": {}, "data": {"authorized_keys": "ssh-ed25519 A a\n"}}
NAMED: Object = {"metadata": {"annotations": {names.HOST_ANNOTATION: "u.x"}}}
OPEN = [
    {"metadata": {"labels": {SERVICE_LABEL: of}, "namespace": names.PLATFORM_NAMESPACE}, "endpoints": [{}]}
    for of in (ENTRANCE, GATE)
]
"""A tier with a server and a gate."""

LOG = [link("frps-0", "announced", servers=("frps-0",))]


def labelled(one: Object, place: Place, name: str) -> Object:
    """Give an object the name and labels that ours have."""
    labels = names.labels(owner="dev", component="unit", instance=place.unit, tenant=place.namespace)
    return {**one, "metadata": {**one["metadata"], "name": name, "namespace": place.namespace, "labels": labels}}


def refusal(status: int) -> httpx2.HTTPStatusError:
    """Give what the client raises when the API server says no."""
    request = httpx2.Request("GET", "https://cluster.test")
    return httpx2.HTTPStatusError("no", request=request, response=httpx2.Response(status, request=request))


class Cluster:
    """Answers as the client does, and remembers the questions."""

    def __init__(
        self, *, everywhere: bool = True, log: int = 200, events: int = 200, tier: int = 200, beside: int = 200
    ) -> None:
        self.statuses = {EndpointSlice: tier, Event: events, Service: beside, ConfigMap: beside}
        self.everywhere, self.log_status = everywhere, log
        self.asked: list[tuple[str, str]] = []
        self.logs: list[str] = []
        whole = deployment(), pod(container("tunnel", RUNNING), container("unit", RUNNING))
        parts = deployment(status={"observedGeneration": 1}), pod(conditions=unscheduled("no room"))
        self.objects: dict[Any, list[Object]] = {Deployment: [], Pod: [], ConfigMap: [], Service: []}
        self.objects[Event] = [event("Scheduled", "x")]
        for place, (made, its_pod) in ((WELL, whole), (ILL, parts)):
            self.objects[Deployment].append(labelled(made, place, f"unit-{place.unit}"))
            self.objects[Pod].append(labelled(its_pod, place, f"{place.unit}-1"))
            self.objects[ConfigMap].append(labelled(KEYS, place, f"unit-{place.unit}-keys"))
            self.objects[Service].append(labelled(NAMED, place, f"unit-{place.unit}"))

    def list(self, kind: Any, *, namespace: str, **_: Any) -> Iterator[Any]:
        """List objects of *kind*."""
        self.asked.append((kind.__name__, namespace))
        if namespace == EVERYWHERE and not self.everywhere:
            raise refusal(403)
        if self.statuses.get(kind, 200) != 200:
            raise refusal(self.statuses[kind])
        there = (
            one for one in self.objects.get(kind, ()) if kind is Event or one["metadata"]["namespace"] == namespace
        )
        found = self.objects.get(kind, ()) if namespace == EVERYWHERE else there
        return (SimpleNamespace(to_dict=lambda one=one: one) for one in found)

    def log(self, name: str, **_: Any) -> Iterator[str]:
        """Give a log."""
        self.logs.append(name)
        if self.log_status != 200:
            raise refusal(self.log_status)
        return iter(LOG)


def judged(cluster: Any, *, logs: bool = True) -> dict[Place, Judged]:
    """Judge both units."""
    found = survey(cluster, "dev", ["lab-a", "lab-b"])
    return {one.place: one for one in states(cluster, found, [WELL, ILL], logs=logs)}


def test_few_questions_answer_for_all_units() -> None:
    """Five lists of the whole cluster; events where there is trouble, logs where a tunnel client runs."""
    cluster = Cluster()
    found = judged(cluster)

    assert (found[WELL].state.unit.phase, found[WELL].state.ssh.state) == (Phase.READY, Ssh.REACHABLE)
    assert (found[ILL].state.unit.phase, found[ILL].state.unit.message) == (Phase.PENDING, "no room")
    kinds = ("Deployment", "Pod", "PersistentVolumeClaim", "Job", "ConfigMap")
    assert cluster.asked == [*((kind, EVERYWHERE) for kind in kinds), ("Event", "lab-b")]
    assert cluster.logs == ["well-1"]


def test_who_may_not_list_the_cluster_lists_its_namespaces() -> None:
    """A deployer with rights in some namespaces sees the units there."""
    found = judged(Cluster(everywhere=False))

    assert {place: one.state.unit.phase for place, one in found.items()} == {WELL: Phase.READY, ILL: Phase.PENDING}


@pytest.mark.parametrize(("status", "reason"), [(403, NOT_READ), (400, "NoEvidence"), (404, "NoEvidence")])
def test_a_log_that_is_not_to_be_had_is_no_evidence(status: int, reason: str) -> None:
    """Whether it may not be read or is not there, nobody says that a login works."""
    found = judged(Cluster(log=status))

    assert (found[WELL].state.ssh.state, found[WELL].state.ssh.reason) == (Ssh.PENDING, reason)


def test_logs_are_read_only_where_asked() -> None:
    """Without them, the SSH state is not known."""
    cluster = Cluster()

    assert judged(cluster, logs=False)[WELL].state.ssh.reason == NOT_READ
    assert cluster.logs == []


@pytest.mark.parametrize(("status", "reason"), [(200, "NoTunnelServer"), (403, "Announced")])
def test_the_tier_is_looked_at(status: int, reason: str) -> None:
    """It is asked once for all units; who may not see it goes by what the units say."""
    cluster: Any = Cluster(tier=status)
    found = states(cluster, survey(cluster, "dev", ["lab-a", "lab-b"], tier=True, gated=True), [WELL])

    assert [one.state.ssh.reason for one in found] == [reason]
    assert cluster.asked.count(("EndpointSlice", names.PLATFORM_NAMESPACE)) == 1


@pytest.mark.parametrize(("status", "reason"), [(200, "NoService"), (403, "Announced")])
def test_services_are_looked_at_where_a_gate_of_ours_asks_for_them(status: int, reason: str) -> None:
    """Once for all units; who may not see them goes by what the units say."""
    cluster: Any = Cluster(beside=status)
    cluster.objects |= {EndpointSlice: OPEN, Service: []}
    found = states(cluster, survey(cluster, "dev", ["lab-a", "lab-b"], tier=True, gated=True), [WELL])

    assert [one.state.ssh.reason for one in found] == [reason]
    assert cluster.asked.count(("Service", EVERYWHERE)) == 1


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize(("kind", "reason"), [(Service, "NoService"), (ConfigMap, "NoKeys"), (None, "Announced")])
def test_what_lies_in_another_namespace_is_not_the_units(kind: Any, reason: str, *, everywhere: bool) -> None:
    """Service and keys of the unit's name count where the unit is."""
    cluster: Any = Cluster(everywhere=everywhere)
    cluster.objects[EndpointSlice] = OPEN
    if kind:
        there = next(one for one in cluster.objects[kind] if one["metadata"]["namespace"] == WELL.namespace)
        there["metadata"]["namespace"] = ILL.namespace
    found = states(cluster, survey(cluster, "dev", ["lab-a", "lab-b"], tier=True, gated=True), [WELL])

    assert [one.state.ssh.reason for one in found] == [reason]


def looking(cluster: Any) -> Callable[[float], str]:
    """Give what looks at WELL at a moment, again and again, and says why a login works or does not."""
    look = Looker("", "", "dev", gated=True, client=cluster)

    def at(moment: float) -> str:
        look.clock = lambda: moment
        (one,) = look([WELL], logs=True)
        return one.state.ssh.reason

    return at


def test_services_and_keys_are_asked_for_every_few_seconds() -> None:
    """`up` looks twice a second, and the lists of all units' keys are large; pods are asked for at each look."""
    cluster = Cluster()
    look = looking(cluster)

    assert [look(at) for at in (0, 1, KEPT_SECONDS - 0.1, KEPT_SECONDS, KEPT_SECONDS + 1)] == ["Announced"] * 5
    assert [cluster.asked.count((kind, EVERYWHERE)) for kind in ("Service", "ConfigMap", "Pod")] == [2, 2, 5]


@pytest.mark.parametrize(("kind", "reason"), [(Service, "NoService"), (ConfigMap, "NoKeys")])
def test_what_speaks_against_a_unit_is_asked_for_anew(kind: Any, reason: str) -> None:
    """A unit that was made since the last answer, or mended, is not held up by it."""
    cluster = Cluster()
    there, cluster.objects[kind] = cluster.objects[kind], []
    look = looking(cluster)

    assert look(0) == reason
    cluster.objects[kind] = there
    assert look(0.5) == "Announced"


def test_without_events_there_is_a_state() -> None:
    """Who may not list events knows less, and still something."""
    assert judged(Cluster(events=403))[ILL].state.unit.message == "no room"


@pytest.mark.parametrize(("log", "events"), [(500, 200), (200, 500)])
def test_a_cluster_that_is_in_trouble_is_told(log: int, events: int) -> None:
    """An answer that is none is an error, not a state."""
    with pytest.raises(httpx2.HTTPStatusError):
        judged(Cluster(log=log, events=events))
