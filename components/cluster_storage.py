"""What the cluster has for a stack's volumes: the claims that are there already, and the classes that make them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from lightkube import Client
from lightkube.resources.core_v1 import PersistentVolume, PersistentVolumeClaim
from lightkube.resources.storage_v1 import StorageClass

from components import names
from components.cluster import Claim
from components.cluster_view import FORBIDDEN, PAGE, all_of, ask

DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
"""Of which Kubernetes reads both."""


@dataclass(frozen=True)
class LiveClaim:
    """A claim of the stack that is in the cluster."""

    at: Claim
    tenant: str
    storage: str
    size: str
    """As requested last."""
    capacity: str | None
    """What the volume has; None: there is no volume yet."""
    storage_class: str | None
    access_modes: tuple[str, ...]
    going: bool = False
    """Whether it has been told to go, and waits for who mounts it."""
    protected: bool = False
    created: str = ""
    """When it was made, in Kubernetes' words."""


@dataclass(frozen=True)
class VolumeClass:
    """A storage class, and what it can do."""

    name: str
    provisioner: str
    binds: str = "Immediate"
    expands: bool = False
    default: bool = False
    created: str = ""

    @property
    def text(self) -> str:
        """Say which it is and what it can do."""
        how = "when its first pod is scheduled" if self.binds == "WaitForFirstConsumer" else "at once"
        grows = "can grow" if self.expands else "cannot grow (no allowVolumeExpansion)"
        who = f"{self.name}, the cluster's default," if self.default else self.name
        return f"{who} by {self.provisioner}: a volume is made {how} ({self.binds}) and {grows}"


@dataclass(frozen=True)
class Volumes:
    """What the cluster answered."""

    claims: Mapping[Claim, LiveClaim]
    classes: Mapping[str, VolumeClass] | None = None
    """By name; None: the deployer may not list them."""
    by_hand: frozenset[str] | None = frozenset()
    """Names of classes, of no provisioner, that volumes wear which somebody made; None: nobody may list them."""

    @property
    def default(self) -> VolumeClass | None:
        """Give the class of a claim that names none: the newest of those that are marked, as Kubernetes chooses."""
        marked = [one for one in (self.classes or {}).values() if one.default]
        return max(marked, key=lambda one: (one.created, one.name), default=None)


def volumes(client: Client, owner: str, named: Collection[str]) -> Volumes:
    """Ask for the claims of stack *owner* and for all classes; for volumes where a class of *named* is not there.

    Raises UnreachableError when the cluster does not answer.
    """
    ours: Any = {names.OWNER_LABEL: owner}
    found = ask(
        client,
        {
            "claims": lambda c: c.list(PersistentVolumeClaim, namespace="*", labels=ours, chunk_size=PAGE),
            "classes": all_of(StorageClass),
        },
    )
    claims = {live.at: live for live in map(_live, found["claims"] or ()) if live}
    if (listed := found["classes"]) is FORBIDDEN:
        return Volumes(claims)
    classes = {one.name: one for one in map(_class, listed or ())}
    absent = set(named) - classes.keys()
    return Volumes(claims, classes, _by_hand(client) if absent else frozenset())


def _by_hand(client: Client) -> frozenset[str] | None:
    found = ask(client, {"volumes": all_of(PersistentVolume)})["volumes"]
    if found is FORBIDDEN:
        return None
    return frozenset(one.spec.storageClassName for one in found or () if one.spec and one.spec.storageClassName)


def _live(claim: PersistentVolumeClaim) -> LiveClaim | None:
    """Read a claim that is a storage's."""
    meta, spec, status = claim.metadata, claim.spec, claim.status
    if meta is None or spec is None:
        return None
    labels, said = meta.labels or {}, meta.annotations or {}
    requests = (spec.resources.requests if spec.resources else None) or {}
    capacity = (status.capacity if status else None) or {}
    return LiveClaim(
        at=Claim(meta.namespace or "", meta.name or ""),
        tenant=labels.get(names.TENANT_LABEL, ""),
        storage=labels.get("app.kubernetes.io/instance", ""),
        size=str(requests.get("storage", "0")),
        capacity=capacity.get("storage") if status and status.phase == "Bound" else None,
        storage_class=spec.storageClassName,
        access_modes=tuple(spec.accessModes or ()),
        going=meta.deletionTimestamp is not None,
        protected=said.get(names.PROTECT_ANNOTATION) == "true",
        created=meta.creationTimestamp.isoformat() if meta.creationTimestamp else "",
    )


def _class(found: StorageClass) -> VolumeClass:
    meta = found.metadata
    said = (meta.annotations if meta else None) or {}
    return VolumeClass(
        name=(meta.name if meta else None) or "",
        provisioner=found.provisioner,
        binds=found.volumeBindingMode or "Immediate",
        expands=bool(found.allowVolumeExpansion),
        default=any(said.get(key) == "true" for key in DEFAULT_ANNOTATIONS),
        created=meta.creationTimestamp.isoformat() if meta and meta.creationTimestamp else "",
    )
