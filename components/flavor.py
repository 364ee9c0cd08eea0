"""A flavor: a named size, the GPUs that it grants, and the nodes that carry it."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from components.dns import LabelKey, LabelValue
from components.model import Manifest, Model, Quantity, Resources, Whole, matching
from policy.baseline import GPU_DOMAINS

DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"

MOST_GPUS = 64
"""More than any node has; a typing error ends here and not in the scheduler."""

MOST_CLAIMED = 32
"""Devices that one ResourceClaim may hold (AllocationResultsMaxSize of resource.k8s.io/v1)."""

LONGEST_TOLERATION = 86400
"""Seconds: who would stay for more than a day on a node that is to be left says nothing, and stays."""

_RESOURCE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_SHARE = re.compile(r".*((?<!neuron)cores?|mem|memory|percentage|priority)")
_CLASS_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")

LONGEST_CLASS = 200
"""Characters: with `.deviceclass.resource.k8s.io` behind it a class names its devices in a quota (253)."""


def is_share(resource: str) -> bool:
    """Say whether *resource* sizes a part of a GPU (memory, cores) and counts none: ``nvidia.com/gpumem``."""
    return bool(_SHARE.fullmatch(resource))


def is_gpu_domain(key: str) -> bool:
    """Say whether *key*, of a resource or a taint, is in the domain of a GPU vendor."""
    return key.partition("/")[0] in GPU_DOMAINS


def _gpu_resource(value: str) -> str:
    name = value.partition("/")[2]
    if not is_gpu_domain(value) or not _RESOURCE_NAME.fullmatch(name):
        advice = "nvidia.com/gpu, nvidia.com/mig-1g.10gb or amd.com/gpu"
        raise ValueError(f"must be a GPU resource such as {advice}; the quota and the law know no other domains")
    return value


def _device_resource(value: str) -> str:
    if is_share(_gpu_resource(value)):
        raise ValueError("sizes a part of a GPU and counts none; say it in `resources`, beside the GPU itself")
    return value


def _priority(value: str) -> str:
    if value.startswith("system-"):
        raise ValueError("belongs to Kubernetes, for what a node needs; make a priority class of your own")
    return value


GpuResource = Annotated[str, AfterValidator(_gpu_resource)]
ClassName = Annotated[
    str,
    Field(max_length=LONGEST_CLASS),
    matching(_CLASS_NAME, "must be the name of a cluster's object: lower-case letters, digits, '-' and '.'"),
]
PriorityClass = Annotated[ClassName, AfterValidator(_priority)]


class TolerationSpec(Model):
    """A taint of GPU nodes that the flavor's units may stand."""

    key: LabelKey
    operator: Literal["Exists", "Equal"] = "Exists"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    toleration_seconds: Annotated[Whole, Field(ge=1, le=LONGEST_TOLERATION)] | None = None
    """With NoExecute: a unit is ended so long after the taint came, whatever its `disruption`; None: never."""

    @property
    def manifest(self) -> Manifest:
        """Give it in Kubernetes' words."""
        return self.model_dump(by_alias=True, exclude_none=True)


class ClaimSpec(Model):
    """GPUs by dynamic resource allocation: a claim of each pod's own, made from a template of its unit."""

    device_class: ClassName
    count: Annotated[Whole, Field(ge=1, le=MOST_CLAIMED)] = 1


class Flavor(Model):
    """A named size."""

    gpus: Annotated[Whole, Field(ge=0, le=MOST_GPUS)] = 1
    cpu: Quantity
    memory: Quantity
    ephemeral: Quantity | None = None
    resource: Annotated[str, AfterValidator(_device_resource)] = DEFAULT_GPU_RESOURCE
    beside: dict[GpuResource, Annotated[Whole, Field(ge=1)]] = Field(default={}, alias="resources")
    """Further GPU resources of the same container: other MIG profiles, memory and cores of a share."""
    claim: ClaimSpec | None = None
    node_selector: dict[LabelKey, LabelValue] = Field(default={})
    tolerations: tuple[TolerationSpec, ...] = ()
    runtime_class: ClassName | None = None
    priority_class: PriorityClass | None = None

    @property
    def resources(self) -> Resources:
        """Give CPU and memory of the unit's container."""
        return Resources(cpu=self.cpu, memory=self.memory)

    @property
    def extended(self) -> dict[str, int]:
        """Give every GPU resource that the container requests of device plugins, with its amount."""
        if self.claim:
            return {}
        return {**({self.resource: self.gpus} if self.gpus else {}), **self.beside}

    @property
    def devices(self) -> int:
        """Count the GPUs, parts of them included, whoever hands them out."""
        counted = sum(amount for resource, amount in self.extended.items() if not is_share(resource))
        return self.claim.count if self.claim else counted
