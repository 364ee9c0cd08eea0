"""Who has a storage's volume as the cluster knows it, whatever the stack file says: pods, and units that make some."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lightkube import Client
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Pod
from status.objects import Object, claims_of

from components import cluster, names
from components.cluster_view import PAGE
from components.storage_spec import Storage

OVER = frozenset({"Succeeded", "Failed"})
"""Phases of a pod that writes no more."""


@dataclass(frozen=True)
class Mounter:
    """A pod that has not ended, or a unit whose Deployment makes one; it mounts the volume."""

    text: str
    component: str = ""
    """Of ours: unit, browser or prepare; empty: somebody else's."""
    instance: str = ""
    going: bool = False
    """Whether it has been told to end."""

    def ends(self, storage: Storage) -> bool:
        """Say whether it is sure to end: a copy's Job, a unit at rest, whatever was told to."""
        return (
            self.going or self.component == "prepare" or (self.component == "unit" and self.instance in storage.resting)
        )

    def stays(self, storage: Storage) -> bool:
        """Say whether it may have the volume while nothing new is to come into it: a unit that runs, the browser."""
        unit = self.component == "unit" and self.instance in storage.running
        return not self.going and (unit or self.shows(storage))

    def shows(self, storage: Storage) -> bool:
        """Say whether it is the storage's browser."""
        return (self.component, self.instance) == ("browser", storage.name)


def mounters(client: Client, storage: Storage) -> list[Mounter]:
    """Name all who have the volume of *storage*, each once. Raises what the client raises; see ``cluster.answered``."""
    claim = names.claim(storage.name)
    pods = client.list(Pod, namespace=storage.namespace, chunk_size=PAGE)
    found = [one for one in map(_plain, pods) if (one.get("status") or {}).get("phase") not in OVER]
    mounting = [one for one in found if claim in claims_of(one.get("spec") or {})]
    units = [one for one in _units(client, storage) if claim in claims_of(one["spec"]["template"]["spec"])]
    return list(dict.fromkeys(_mounter(one, storage) for one in (*units, *mounting)))


def _plain(one: Any) -> Object:
    plain: Object = one.to_dict()
    return plain


def _units(client: Client, storage: Storage) -> Iterator[Object]:
    """Yield the Deployments of the stack's units that are to have pods."""
    labels: dict[str, Any] = {names.OWNER_LABEL: storage.owner, **names.component_selector("unit")}
    found = map(_plain, client.list(Deployment, namespace=storage.namespace, labels=labels, chunk_size=PAGE))
    return (one for one in found if one["spec"].get("replicas") != 0)


def _mounter(one: Object, storage: Storage) -> Mounter:
    meta = one["metadata"]
    labels, going = meta.get("labels") or {}, bool(meta.get("deletionTimestamp"))
    component, instance = labels.get(names.COMPONENT_LABEL, ""), labels.get("app.kubernetes.io/instance", "")
    if cluster.not_ours(storage.owner, labels):
        return Mounter(f"pod {storage.namespace}/{meta['name']}", going=going)
    if component == "unit":
        return Mounter(f"unit {instance}.{storage.tenant}", component, instance, going)
    return Mounter(f"pod {storage.namespace}/{meta['name']}", component, instance, going)
