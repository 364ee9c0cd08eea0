"""What is asked of the cluster about storages: five lists, and events only where something is wrong."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx2
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Event, PersistentVolumeClaim, Pod
from status.objects import Object

from components import names
from components.storage_survey import StoragePlace, storage_states, survey_storages
from components.survey import EVERYWHERE
from tests.components.test_survey import refusal
from tests.status.objects import RUNNING, container
from tests.status.test_storage_states import BROWSER, browser, claim, event, job, pod

WELL, ILL = StoragePlace("lab-a", "data"), StoragePlace("lab-b", "data")


def labelled(one: Object, component: str, place: StoragePlace) -> Object:
    """Give an object the labels that ours have."""
    labels = names.labels(owner="dev", component=component, instance=place.storage, tenant=place.namespace)
    return {**one, "metadata": {**one["metadata"], "namespace": place.namespace, "labels": labels}}


class Cluster:
    """Answers as the client does, and remembers the questions."""

    def __init__(self, *, everywhere: bool = True, events: int = 200) -> None:
        self.everywhere, self.events_status = everywhere, events
        self.asked: list[tuple[str, str]] = []
        running = pod(container("prepare", RUNNING))
        self.objects: dict[Any, list[Object]] = {
            PersistentVolumeClaim: [
                labelled(claim(job=None), "storage", WELL),
                labelled(claim("Pending"), "storage", ILL),
            ],
            Job: [labelled(job(), "prepare", ILL)],
            Pod: [labelled(running, "prepare", ILL)],
            Deployment: [labelled(browser(**BROWSER), "browser", WELL)],
            Event: [event("storage-data", "ProvisioningFailed", "no room", "Warning")],
        }

    def list(self, kind: Any, *, namespace: str, labels: Any = None, **_: Any) -> Iterator[Any]:
        """List objects of *kind* that wear *labels*."""
        self.asked.append((kind.__name__, namespace))
        if namespace == EVERYWHERE and not self.everywhere:
            raise refusal(403)
        if kind is Event and self.events_status != httpx2.codes.OK:
            raise refusal(self.events_status)
        for one in self.objects[kind]:
            worn = one.get("metadata", {}).get("labels", {})
            here = kind is Event or namespace in (EVERYWHERE, one["metadata"]["namespace"])
            if here and all(worn.get(key) == value for key, value in (labels or {}).items()):
                yield SimpleNamespace(to_dict=lambda one=one: one)


def judged(cluster: Any) -> dict[StoragePlace, Any]:
    """Judge both storages, and one that is not there."""
    found = survey_storages(cluster, "dev", ["lab-a", "lab-b"])
    places = [WELL, ILL, StoragePlace("lab-a", "none")]
    return {one.place: one.state for one in storage_states(cluster, found, places)}


def test_each_storage_is_judged_by_its_own() -> None:
    """Two storages of one name in two namespaces do not mix, and one that is not there is absent."""
    found = judged(Cluster())

    assert found[WELL].overall.reason == "StorageReady"
    assert found[WELL].browser.phase.value == "Ready"
    assert found[ILL].prepare.phase.value == "Running"
    assert found[ILL].overall.message == "ProvisioningFailed: no room"
    assert found[StoragePlace("lab-a", "none")].overall.phase.value == "Absent"


def test_events_are_read_where_something_is_wrong() -> None:
    """Five lists of the whole cluster, and one more for each namespace with trouble."""
    cluster = Cluster()
    judged(cluster)

    assert [namespace for _, namespace in cluster.asked] == [*[EVERYWHERE] * 5, "lab-b"]
    assert cluster.asked[-1][0] == "Event"


def test_a_deployer_of_namespaces_alone_sees_the_same() -> None:
    """Where the whole cluster may not be listed, the stack's namespaces are; without events it says less."""
    cluster = Cluster(everywhere=False, events=403)
    found = judged(cluster)

    assert found[WELL].overall.reason == "StorageReady"
    assert found[ILL].overall.message.startswith("Unbound: ")
