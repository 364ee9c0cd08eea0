"""Shared memory is memory: it is sized, and a GPU program gets some."""

from collections.abc import Iterator, Sequence

from policy.baseline import SHM_PATH
from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.gpus import claims_of, gpus_of
from policy.objects import Container, Object, Pod
from policy.plain import UNKNOWN
from policy.quantity import quantity

ID = "shared-memory"
SEVERITY = Severity.MEDIUM
DESCRIPTION = f"Volumes in memory have a size within their container's memory limit; GPU containers have {SHM_PATH} so."
REMEDIATION = f"Mount an emptyDir {{medium: Memory, sizeLimit: half of the memory limit}} at {SHM_PATH}."
FRAMEWORKS = {Framework.GPU: "shm", Framework.SYSTEM_A: "1.7"}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield unsized and oversized volumes in memory, and containers whose /dev/shm is none or another volume."""
    if thing.pod is None:
        return
    volumes = list(thing.pod.spec["volumes"].each())
    for volume in volumes:
        if volume["emptyDir"]["medium"].value in ("Memory", UNKNOWN):
            yield from _sized(thing.pod, volume)
    for container in thing.containers:
        yield from _shm(container, volumes)


def _sized(pod: Pod, volume: Field) -> Iterator[Finding]:
    who, size = f"volume {volume['name'].said}", volume["emptyDir"]["sizeLimit"]
    amount = quantity(size.value)
    if amount is None or amount <= 0:
        yield size.refuse(who, "give it a size: memory without one is the node's")
        return
    for container in pod.containers:
        limit = container.field["resources"]["limits"]["memory"]
        most = quantity(limit.value)
        if _mounts(container, volume) and limit.value is not None and (most is None or amount > most):
            yield size.refuse(who, f"it must not be above the memory limit of {container.who}, {limit.said}")


def _mounts(container: Container, volume: Field) -> bool:
    return any(
        mount["name"].value in (volume["name"].value, UNKNOWN) for mount in container.field["volumeMounts"].each()
    )


def _shm(container: Container, volumes: Sequence[Field]) -> Iterator[Finding]:
    mounts = [mount for mount in container.field["volumeMounts"].each() if _is_shm(mount["mountPath"])]
    for mount in mounts:
        if not any(_in_memory(volume, mount["name"].value) for volume in volumes):
            yield mount["name"].refuse(container.who, f"{SHM_PATH} must be an emptyDir with medium Memory")
    if not mounts and (gpus_of(container) or claims_of(container)):
        mount_list = container.field["volumeMounts"]
        yield Finding(
            mount_list.path, f"{container.who}: has a GPU and no {SHM_PATH}; mount a sized emptyDir in memory"
        )


def _in_memory(volume: Field, name: object) -> bool:
    return bool(volume["name"].value == name) and volume["emptyDir"]["medium"].value == "Memory"


def _is_shm(path: Field) -> bool:
    return path.value is UNKNOWN or (isinstance(path.value, str) and path.value.rstrip("/") == SHM_PATH)
