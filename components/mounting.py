"""Who has a storage's volume as the cluster knows it, whatever the stack file says: pods, and what makes some."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from lightkube import Client
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Pod
from status.objects import Object, claims_of

from components import cluster, names
from components.browser import BROWSER
from components.cluster_view import PAGE
from components.storage_spec import Storage

OVER = frozenset({"Succeeded", "Failed"})
"""Phases of a pod that writes no more."""


@dataclass(frozen=True)
class Mounter:
    """A pod that has not ended, or a unit or browser whose Deployment makes one; it mounts the volume."""

    text: str
    component: str = ""
    """Of ours: unit, browser or prepare; empty: somebody else's."""
    instance: str = ""
    going: bool = False
    """Whether it has been told to end."""
    writes: bool = False
    """Of the storage's browser: whether people may upload by it."""

    def ends(self, storage: Storage) -> bool:
        """Say whether it is sure to end: a copy's Job, a unit at rest, whatever was told to."""
        return (
            self.going or self.component == "prepare" or (self.component == "unit" and self.instance in storage.resting)
        )

    def stays(self, storage: Storage) -> bool:
        """Say whether it may have the volume while nothing new is to come into it: a unit that runs, the browser.

        A browser that left the stack file is removed after the Job, and takes uploads until then.
        """
        unit = self.component == "unit" and self.instance in storage.running
        shown = self.is_browser(storage) and (storage.spec.browser is not None or not self.writes)
        return not self.going and (unit or shown)

    def is_browser(self, storage: Storage) -> bool:
        """Say whether it is the storage's browser."""
        return (self.component, self.instance) == (BROWSER, storage.name)

    def only_shows(self, storage: Storage) -> bool:
        """Say whether it is the storage's browser, and takes no uploads."""
        return self.is_browser(storage) and not self.writes


def mounters(client: Client, storage: Storage) -> list[Mounter]:
    """Name all who have the volume of *storage*, each once. Raises what the client raises; see ``cluster.answered``."""
    claim = names.claim(storage.name)
    pods = client.list(Pod, namespace=storage.namespace, chunk_size=PAGE)
    found = [one for one in map(_plain, pods) if (one.get("status") or {}).get("phase") not in OVER]
    mounting = [one for one in found if claim in claims_of(one.get("spec") or {})]
    makers = [one for one in _makers(client, storage) if claim in claims_of(one["spec"]["template"]["spec"])]
    making = [_mounter(one, one["spec"]["template"]["spec"], storage) for one in makers]
    shown = any(one.is_browser(storage) and not one.going for one in making)
    having = [_mounter(one, one["spec"], storage) for one in mounting]
    # a Deployment is gone some moments before its pods are told to end
    return list(dict.fromkeys([*making, *(one if shown else _left(one, storage) for one in having)]))


def _left(one: Mounter, storage: Storage) -> Mounter:
    """Take a browser's pod that nothing holds any more for one that ends."""
    return replace(one, going=True) if one.is_browser(storage) else one


def _plain(one: Any) -> Object:
    plain: Object = one.to_dict()
    return plain


def _makers(client: Client, storage: Storage) -> Iterator[Object]:
    """Yield the Deployments of the stack's units and browsers that are to have pods."""
    labels: dict[str, Any] = {names.OWNER_LABEL: storage.owner, names.COMPONENT_LABEL: ("unit", BROWSER)}
    found = map(_plain, client.list(Deployment, namespace=storage.namespace, labels=labels, chunk_size=PAGE))
    return (one for one in found if one["spec"].get("replicas") != 0)


def _mounter(one: Object, pod: Object, storage: Storage) -> Mounter:
    """Say who *one* is, a pod or a Deployment, by its labels and by the spec of its *pod*."""
    meta = one["metadata"]
    labels, going = meta.get("labels") or {}, bool(meta.get("deletionTimestamp"))
    component, instance = labels.get(names.COMPONENT_LABEL, ""), labels.get("app.kubernetes.io/instance", "")
    if cluster.not_ours(storage.owner, labels):
        return Mounter(f"pod {storage.namespace}/{meta['name']}", going=going)
    if component == "unit":
        return Mounter(f"unit {instance}.{storage.tenant}", component, instance, going)
    if (component, instance) == (BROWSER, storage.name):
        return Mounter(f"the browser of {storage.alias}", component, instance, going, _writes(pod, storage))
    return Mounter(f"pod {storage.namespace}/{meta['name']}", component, instance, going)


def _writes(pod: Object, storage: Storage) -> bool:
    """Say whether a pod of this spec may write to the volume."""
    volumes = [one["name"] for one in pod["volumes"] if names.claim(storage.name) in claims_of({"volumes": [one]})]
    mounts = [mount for one in pod["containers"] for mount in one.get("volumeMounts") or ()]
    return any(mount["name"] in volumes and not mount.get("readOnly") for mount in mounts)
