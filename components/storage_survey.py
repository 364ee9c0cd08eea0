"""What the cluster says of a stack's storages, read with the deployer's rights: a few lists, however many there are."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lightkube import Client
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import PersistentVolumeClaim, Pod
from status.objects import Object
from status.storage_objects import StorageSeen
from status.storage_states import StoragePhase, StorageState, storage_state

from components import cluster, names
from components.survey import events_in, listed_everywhere

WELL = frozenset({StoragePhase.READY, StoragePhase.ABSENT})
"""Phases of which no event tells more."""


@dataclass(frozen=True, order=True)
class StoragePlace:
    """Where a storage is."""

    namespace: str
    storage: str


@dataclass(frozen=True)
class JudgedStorage:
    """A storage, what the cluster says of it, and what follows."""

    place: StoragePlace
    seen: StorageSeen
    state: StorageState


@dataclass
class StorageLooker:
    """Looks again and again at the storages of one stack, through one connection that is made when first needed."""

    kubeconfig: str
    context: str
    owner: str
    client: Client | None = None

    def __call__(self, places: Iterable[StoragePlace]) -> list[JudgedStorage]:
        """Judge the storages at *places*. Raises UnreachableError when the cluster does not answer."""
        wanted = list(places)
        with cluster.ONE_AT_A_TIME, cluster.answered():
            self.client = self.client or cluster.connect(self.kubeconfig, self.context)
            found = survey_storages(self.client, self.owner, (place.namespace for place in wanted))
            return list(storage_states(self.client, found, wanted))


def survey_storages(client: Client, owner: str, namespaces: Iterable[str]) -> dict[StoragePlace, StorageSeen]:
    """List what stack *owner* has of storages: in the whole cluster, or where that may not be listed in *namespaces*.

    Five questions, however many there are. Raises what the client raises; see ``cluster.answered``.
    """
    within = sorted(set(namespaces))

    def listed(kind: Any, component: str) -> Mapping[StoragePlace, tuple[Object, ...]]:
        labels = {names.OWNER_LABEL: owner, names.COMPONENT_LABEL: component}
        found: dict[StoragePlace, tuple[Object, ...]] = {}
        for one in listed_everywhere(client, kind, within, labels):
            found[_place(one)] = (*found.get(_place(one), ()), one)
        return found

    claims, jobs, pods = listed(PersistentVolumeClaim, "storage"), listed(Job, "prepare"), listed(Pod, "prepare")
    browsers, browser_pods = listed(Deployment, "browser"), listed(Pod, "browser")
    return {
        place: StorageSeen(
            claim=next(iter(claims.get(place, ())), None),
            jobs=jobs.get(place, ()),
            pods=pods.get(place, ()),
            browser=next(iter(browsers.get(place, ())), None),
            browser_pods=browser_pods.get(place, ()),
        )
        for place in {*claims, *jobs, *browsers}
    }


def storage_states(
    client: Client, found: Mapping[StoragePlace, StorageSeen], places: Iterable[StoragePlace]
) -> Iterator[JudgedStorage]:
    """Judge the storages at *places*; events are read of namespaces with trouble."""
    events: dict[str, tuple[Object, ...]] = {}
    for place in places:
        seen = found.get(place, StorageSeen(None))
        if storage_state(seen).overall.phase not in WELL:
            if place.namespace not in events:
                events[place.namespace] = events_in(client, place.namespace, kind=None)
            seen = replace(seen, events=events[place.namespace])
        yield JudgedStorage(place, seen, storage_state(seen))


def _place(one: Object) -> StoragePlace:
    return StoragePlace(one["metadata"]["namespace"], one["metadata"]["labels"]["app.kubernetes.io/instance"])
