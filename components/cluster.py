"""The program's own look at the cluster: who owns what is already there. All that it ever writes is a pod's annotation.

An unreachable cluster is a refusal: what cannot be checked is not known to be ours. ``GPU_RUNTIME_OFFLINE=1`` turns the
look off, for rendering and tests.
"""

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import msgspec
from lightkube import Client, KubeConfig
from lightkube.core.exceptions import ApiError, ConfigError, LoadResourceError
from lightkube.resources.core_v1 import Namespace, PersistentVolumeClaim, Pod
from lightkube.types import PatchType

from components import names

OFFLINE = "GPU_RUNTIME_OFFLINE"
"""Environment variable: 1 skips every question to the cluster."""

TIMEOUT_SECONDS = 10
"""For one answer; an API server that takes longer is as good as unreachable."""


ONE_AT_A_TIME = threading.Lock()
"""Held by who asks while the engine runs: the client's decoder crashes the process when two threads decode at once."""


class UnreachableError(Exception):
    """The cluster did not answer, so that nobody knows what is in it."""


@dataclass(frozen=True)
class Claim:
    """A volume claim that this stack is about to make or adopt."""

    namespace: str
    name: str


def offline() -> bool:
    """Say whether questions to the cluster are switched off."""
    return os.environ.get(OFFLINE) == "1"


def kubeconfig_path(said: str | None) -> str:
    """Give the kubeconfig to use: the stack's, else the environment's, else kubectl's default."""
    return str(Path(said or os.environ.get("KUBECONFIG") or "~/.kube/config").expanduser())


def connect(kubeconfig: str, context: str) -> Client:
    """Connect as kubectl would, exec plugins included.

    Raises UnreachableError when the file or the context is not there.
    """
    said = f"kubeconfig {kubeconfig}, context {context!r}"
    try:
        config = KubeConfig.from_file(kubeconfig).get(context)
        if config is None or config.user is None:
            raise UnreachableError(f"{said}: it has no such context with a user")
        return Client(config=config, timeout=httpx2.Timeout(TIMEOUT_SECONDS))
    except (ConfigError, LoadResourceError, OSError) as error:
        raise UnreachableError(f"{said}: {error}") from None


@contextmanager
def answered() -> Iterator[None]:
    """Raise UnreachableError for every way in which a question gets no answer; an exec plugin that fails is one."""
    try:
        yield
    except (httpx2.HTTPError, msgspec.MsgspecError, ConfigError, OSError) as error:
        raise UnreachableError(str(error) or type(error).__name__) from None


def foreign(
    client: Client, owner: str, namespaces: Mapping[str, str | None], claims: Iterable[Claim]
) -> Iterator[tuple[str, str]]:
    """Yield (what, why) for each namespace and claim that exists and is not *owner*'s, or another tenant's.

    One that carries our owner label was retained by an earlier life of the stack and is adopted again, by its tenant.
    *namespaces*: with the tenant of each, None for those of the platform. Raises UnreachableError when the cluster does
    not answer.
    """
    with answered():
        yield from _foreign_namespaces(client, owner, namespaces)
        yield from _foreign_claims(client, owner, {claim: namespaces.get(claim.namespace) for claim in claims})


def _foreign_namespaces(client: Client, owner: str, wanted: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    for namespace in client.list(Namespace):
        meta, phase = namespace.metadata, namespace.status.phase if namespace.status else None
        if meta is None or meta.name not in wanted:
            continue
        if phase == "Terminating":
            yield f"namespace {meta.name}", "is being deleted; wait until it is gone and run again"
        elif reason := not_ours(owner, meta.labels) or _not_its(wanted[meta.name or ""], meta.labels):
            yield f"namespace {meta.name}", f"{reason}; {_advice(meta.name)}"


def _advice(namespace: str | None) -> str:
    if namespace in (names.PLATFORM_NAMESPACE, names.ACCESS_NAMESPACE):
        return "a cluster has one platform: use that stack's with gpu-runtime:platformStack, in place of your own"
    return "choose another tenant name or set gpu-runtime:namespacePrefix"


def platform_of(client: Client) -> str | None:
    """Name the stack whose platform the cluster has; None where it has none. Raises UnreachableError."""
    with answered():
        found = [one.metadata for one in client.list(Namespace) if one.metadata]
    labels = next((meta.labels for meta in found if meta.name == names.PLATFORM_NAMESPACE), None)
    return (labels or {}).get(names.OWNER_LABEL)


def _foreign_claims(client: Client, owner: str, wanted: Mapping[Claim, str | None]) -> Iterator[tuple[str, str]]:
    for claim in client.list(PersistentVolumeClaim, namespace="*") if wanted else ():
        meta = claim.metadata
        if meta is None or (at := Claim(meta.namespace or "", meta.name or "")) not in wanted:
            continue
        if reason := not_ours(owner, meta.labels) or _not_its(wanted[at], meta.labels):
            yield f"claim {meta.namespace}/{meta.name}", f"{reason}; rename the storage or move that claim away"


def not_ours(owner: str, labels: dict[str, str] | None) -> str | None:
    """Say why a thing with *labels* is not *owner*'s, or None where it is."""
    held = (labels or {}).get(names.OWNER_LABEL)
    if held == owner:
        return None
    return f"belongs to stack {held!r}" if held else f"exists and is not ours (no label {names.OWNER_LABEL})"


def _not_its(tenant: str | None, labels: dict[str, str] | None) -> str | None:
    """Say why a thing of our stack with *labels* is not *tenant*'s, or None where it is, and where it has none."""
    held = (labels or {}).get(names.TENANT_LABEL)
    if tenant is None or held == tenant:
        return None
    who = f"belongs to tenant {held!r} of this stack" if held else f"says of no tenant (no label {names.TENANT_LABEL})"
    return f"{who}, and not to tenant {tenant!r}"


def live_pods(client: Client, namespace: str, labels: names.Labels) -> Iterator[Pod]:
    """Yield the pods with *labels* that run or will: neither ended nor being deleted."""
    for pod in client.list(Pod, namespace=namespace, labels=dict(labels)):
        over = pod.status is not None and pod.status.phase in {"Succeeded", "Failed"}
        if pod.metadata and pod.metadata.name and not pod.metadata.deletionTimestamp and not over:
            yield pod


def annotate(client: Client, pod: Pod, annotations: dict[str, str]) -> None:
    """Add *annotations* to *pod*; one that is gone by now needs none."""
    name, namespace = (pod.metadata.name or "", pod.metadata.namespace) if pod.metadata else ("", None)
    patch = {"metadata": {"annotations": annotations}}
    try:
        client.patch(Pod, name, patch, namespace=namespace, patch_type=PatchType.MERGE)
    except ApiError as error:
        if error.status.code != httpx2.codes.NOT_FOUND:
            raise
