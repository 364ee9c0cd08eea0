"""Whether the deployer may do what the stack needs, asked by reviews of access that change nothing."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from lightkube import Client
from lightkube.core.resource_registry import resource_registry
from lightkube.models.authorization_v1 import ResourceAttributes, SelfSubjectAccessReviewSpec
from lightkube.resources.authorization_v1 import SelfSubjectAccessReview

from components import names
from components.cluster import answered
from components.model import Manifest
from components.wording import shortened
from stacks.resolve import Stack
from tools.doctor.findings import Finding, fail, ok, warn
from tools.shell import HEARTBEAT_SECONDS, say

CHECK = "your rights"

MAKES = ("get", "create", "patch", "delete")
"""What the engine does with every object: it looks, makes and changes by server-side apply, and removes."""

WATCHES = ("list", "watch")
"""And with the kinds whose state it waits for."""

WATCHED = frozenset({"Deployment", "Job", "PersistentVolumeClaim", "ResourceQuota"})

BESIDE = (
    ("apps", "replicasets", WATCHES),
    ("", "pods", (*WATCHES, "patch")),
    ("", "events", WATCHES),
    ("", "pods/log", ("get",)),
    ("", "services", ("list",)),
    ("", "configmaps", ("list",)),
)
"""Group, resource and verbs of what tells, in the stack's namespaces, why a pod is not ready, its walls are open or
nobody gets in, and of what tells a running pod that its keys changed."""

NICE = frozenset(
    {
        ("events", "list"),
        ("events", "watch"),
        ("pods/log", "get"),
        ("pods", "patch"),
        ("endpointslices", "list"),
        ("services", "list"),
        ("configmaps", "list"),
    }
)
"""Resources and verbs of those without which all works: a failure or a state says less, new keys take a minute."""

LOOKED_AT = (("", "namespaces"), ("", "persistentvolumeclaims"))
"""What the program lists in the whole cluster, to know whose it is."""

SHOWN = 6


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one kind, in a namespace or, where that is empty, in all."""

    group: str
    resource: str
    verb: str
    namespace: str = ""

    def within(self, namespace: str) -> "Right":
        """Give the same right in one namespace."""
        return Right(self.group, self.resource, self.verb, namespace)

    @property
    def text(self) -> str:
        """Say it as `kubectl auth can-i` has it."""
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}" + (f" in {self.namespace}" if self.namespace else "")


Allowed = Callable[[Iterable[Right]], set[Right]]
"""Give those rights of some that the deployer has."""

EVERYTHING = Right("*", "*", "*")


def needed(manifests: Iterable[Manifest]) -> dict[Right, set[str]]:
    """Give each right that a stack's objects need, with the namespaces where; none: it must hold everywhere."""
    found: dict[Right, set[str]] = {}
    listed = list(manifests)
    for manifest in listed:
        namespace = manifest["metadata"].get("namespace")
        for right in _of_kind(manifest):
            found.setdefault(right, set()).update({namespace} if namespace else ())
    namespaces = set().union(*found.values())
    for right in (Right(group, resource, verb) for group, resource, verbs in BESIDE for verb in verbs):
        found[right] = set(namespaces)
    found[Right("discovery.k8s.io", "endpointslices", "list")] = {names.PLATFORM_NAMESPACE}
    for group, resource in LOOKED_AT:
        found[Right(group, resource, "list")] = set()
    found.update({right: set() for manifest in listed for right in _granted(manifest)})
    return found


def _of_kind(manifest: Manifest) -> Iterator[Right]:
    kind = manifest["kind"]
    info = resource_registry.load(manifest["apiVersion"], kind)._api_info  # noqa: SLF001 - it has no public word for it
    verbs = (*MAKES, *WATCHES) if kind in WATCHED else MAKES
    return (Right(info.resource.group, info.plural, verb) for verb in verbs)


def _granted(manifest: Manifest) -> Iterator[Right]:
    """Yield what a role of the cluster gives: the API server lets nobody give a right that he does not have."""
    for rule in manifest.get("rules", ()) if manifest["kind"] == "ClusterRole" else ():
        named = product(rule["apiGroups"], rule["resources"], rule["verbs"])
        yield from (Right(group, resource, verb) for group, resource, verb in named)


def rights(stack: Stack, allowed: Allowed) -> Iterator[Finding]:
    """Ask from the widest right to the narrowest, so that few questions answer most."""
    wanted = needed(stack.manifests())
    if allowed([EVERYTHING]):
        yield ok(CHECK, "you may do everything in this cluster")
        return
    wide = allowed(wanted)
    narrow = {right.within(where) for right in wanted.keys() - wide for where in wanted[right]}
    had = allowed(narrow)
    missing = sorted((narrow - had) | {right for right in wanted.keys() - wide if not wanted[right]})
    yield _judged(missing, len(wanted))


def _judged(missing: list[Right], asked: int) -> Finding:
    if not missing:
        return ok(CHECK, f"you may do all that the stack needs ({asked} verbs on kinds)")
    said = f"you may not {shortened([right.text for right in missing], SHOWN)}"
    if {(right.resource, right.verb) for right in missing} <= NICE:
        return warn(CHECK, said, "get that right too: without it a failure tells less, or new keys take minutes")
    return fail(CHECK, said, "get a role that may; it needs no right on nodes")


def reviewer(client: Client) -> Allowed:
    """Give the way to ask a cluster.

    The function raises UnreachableError when the cluster does not answer.
    """

    def allowed(asked: Iterable[Right]) -> set[Right]:
        had, said = set(), time.monotonic()
        with answered():
            for right in asked:
                had |= {right} if _review(client, right) else set()
                if time.monotonic() - said >= HEARTBEAT_SECONDS:
                    said = time.monotonic()
                    say(f"doctor: asking what you may do: {right.text}")
        return had

    return allowed


def _review(client: Client, right: Right) -> bool:
    resource, _, part = right.resource.partition("/")
    where = right.namespace or None
    asked = ResourceAttributes(
        group=right.group, resource=resource, subresource=part or None, verb=right.verb, namespace=where
    )
    review = client.create(SelfSubjectAccessReview(spec=SelfSubjectAccessReviewSpec(resourceAttributes=asked)))
    return bool(review.status and review.status.allowed)
