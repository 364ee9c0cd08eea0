"""Find the GPUs that a container asks for, and the devices that it claims."""

from itertools import chain

from policy.baseline import is_gpu_resource
from policy.field import Field
from policy.objects import Container
from policy.plain import UNKNOWN
from policy.quantity import quantity


def gpus_of(container: Container) -> list[str]:
    """Return the names of the GPU resources that *container* limits or requests, `*` where nobody knows."""
    resources = container.field["resources"]
    said = chain(resources["limits"].pairs(), resources["requests"].pairs())
    return list(dict.fromkeys(name for name, field in said if _asks(name, field)))


def claims_of(container: Container) -> list[Field]:
    """Return the claims of devices that *container* names; what devices those are, only the cluster knows."""
    return list(container.field["resources"]["claims"].each())


def _asks(name: str, field: Field) -> bool:
    return (is_gpu_resource(name) and quantity(field.value) != 0) or (name == "*" and field.value is UNKNOWN)
