"""What is asked of the cluster about units, and what becomes of a no."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Event, Pod
from lightkube.resources.discovery_v1 import EndpointSlice
from status.objects import Object
from status.states import NOT_READ, Phase, Ssh

from components import names
from components.survey import EVERYWHERE, Judged, Place, states, survey
from tests.status.objects import RUNNING, container, deployment, event, link, pod, unscheduled

WELL, ILL = Place("lab-a", "well"), Place("lab-b", "ill")
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

    def __init__(self, *, everywhere: bool = True, log: int = 200, events: int = 200, tier: int = 200) -> None:
        self.tier_status = tier
        self.everywhere, self.log_status, self.events_status = everywhere, log, events
        self.asked: list[tuple[str, str]] = []
        self.logs: list[str] = []
        whole = deployment(), pod(container("tunnel", RUNNING), container("unit", RUNNING))
        parts = deployment(status={"observedGeneration": 1}), pod(conditions=unscheduled("no room"))
        self.objects: dict[Any, list[Object]] = {Deployment: [], Pod: [], Event: [event("Scheduled", "x")]}
        for place, (made, its_pod) in ((WELL, whole), (ILL, parts)):
            self.objects[Deployment].append(labelled(made, place, f"unit-{place.unit}"))
            self.objects[Pod].append(labelled(its_pod, place, f"{place.unit}-1"))

    def list(self, kind: Any, *, namespace: str, **_: Any) -> Iterator[Any]:
        """List objects of *kind*."""
        self.asked.append((kind.__name__, namespace))
        if namespace == EVERYWHERE and not self.everywhere:
            raise refusal(403)
        if kind is EndpointSlice and self.tier_status != 200:
            raise refusal(self.tier_status)
        if kind is Event and self.events_status != 200:
            raise refusal(self.events_status)
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
    """Four lists of the whole cluster; events where there is trouble, logs where a tunnel client runs."""
    cluster = Cluster()
    found = judged(cluster)

    assert (found[WELL].state.unit.phase, found[WELL].state.ssh.state) == (Phase.READY, Ssh.REACHABLE)
    assert (found[ILL].state.unit.phase, found[ILL].state.unit.message) == (Phase.PENDING, "no room")
    kinds = ("Deployment", "Pod", "PersistentVolumeClaim", "Job")
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
    found = states(cluster, survey(cluster, "dev", ["lab-a", "lab-b"], tier=True), [WELL])

    assert [one.state.ssh.reason for one in found] == [reason]
    assert cluster.asked.count(("EndpointSlice", names.PLATFORM_NAMESPACE)) == 1


def test_without_events_there_is_a_state() -> None:
    """Who may not list events knows less, and still something."""
    assert judged(Cluster(events=403))[ILL].state.unit.message == "no room"


@pytest.mark.parametrize(("log", "events"), [(500, 200), (200, 500)])
def test_a_cluster_that_is_in_trouble_is_told(log: int, events: int) -> None:
    """An answer that is none is an error, not a state."""
    with pytest.raises(httpx2.HTTPStatusError):
        judged(Cluster(log=log, events=events))
