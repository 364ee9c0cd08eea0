"""Problems of a flavor that its own values show together, or with the taints that the stack calls its GPUs'."""

from collections.abc import Collection, Iterable, Iterator

from components.flavor import Flavor, TolerationSpec, is_gpu_domain, is_share
from stacks.problems import Problem

KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")
"""Whose taints say that a node is the control plane's, or not fit to run anything: no unit stands those."""


def gpu_taint_problems(keys: Iterable[str]) -> Iterator[Problem]:
    """Refuse taints of Kubernetes itself among those that the stack calls its GPUs'."""
    for key in keys:
        domain = key.rpartition("/")[0]
        if any(domain == known or domain.endswith(f".{known}") for known in KUBERNETES_DOMAINS):
            yield Problem("cluster.gpuTaints", f"{key!r} is Kubernetes' own and marks no GPU; no unit may stand it")


def flavor_problems(name: str, flavor: Flavor, gpu_taints: Collection[str]) -> Iterator[Problem]:
    """Yield the problems of flavor *name*; *gpu_taints* are keys beside those of GPU vendors."""
    path = f"flavors.{name}"
    yield from _claim(path, flavor)
    yield from _beside(path, flavor)
    for index, toleration in enumerate(flavor.tolerations):
        at = f"{path}.tolerations.{index}"
        if not flavor.devices:
            yield Problem(at, "is for nodes with GPUs, and the flavor has none; remove it, so that they stay free")
        yield from toleration_problems(at, toleration, gpu_taints)


def _claim(path: str, flavor: Flavor) -> Iterator[Problem]:
    said = {"gpus": "gpus", "resource": "resource", "beside": "resources"}
    if flavor.claim and (twice := [key for field, key in said.items() if field in flavor.model_fields_set]):
        yield Problem(
            f"{path}.claim",
            f"is there beside {', '.join(twice)}: GPUs come from a claim or from device plugins, not both; remove one",
        )


def _beside(path: str, flavor: Flavor) -> Iterator[Problem]:
    if flavor.resource in flavor.beside:
        yield Problem(f"{path}.resources", f"{flavor.resource} is counted by `gpus`; say it once")
    shares = sorted(filter(is_share, flavor.beside))
    if shares and not flavor.devices and not flavor.claim:
        yield Problem(f"{path}.resources", f"{', '.join(shares)}: a share of what? say how many GPUs in `gpus`")


def toleration_problems(path: str, said: TolerationSpec, gpu_taints: Collection[str]) -> Iterator[Problem]:
    """Yield the problems of a toleration written at *path*: other taints than GPUs' keep tenants away for a reason."""
    if not is_gpu_domain(said.key) and said.key not in gpu_taints:
        known = ", ".join(sorted(gpu_taints)) or "none"
        yield Problem(
            f"{path}.key",
            f"{said.key!r} is no taint of a GPU vendor's domain such as nvidia.com/gpu, and none of cluster.gpuTaints: "
            f"{known}",
        )
    if said.operator == "Exists" and said.value is not None:
        yield Problem(f"{path}.value", f"{said.value!r} counts with operator Equal only; Exists takes any value")
    if said.operator == "Equal" and said.value is None:
        yield Problem(f"{path}.value", "is missing: operator Equal compares it; Exists takes any value")
    if said.toleration_seconds and said.effect != "NoExecute":
        yield Problem(f"{path}.tolerationSeconds", f"has no meaning with {said.effect}; it ends units under NoExecute")
