"""Whole GPUs, in one container, and what is asked for is what is held."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.gpus import gpus_of
from policy.objects import Container, Object
from policy.quantity import quantity

ID = "gpu-requests"
SEVERITY = Severity.HIGH
DESCRIPTION = "GPUs are whole, requested as limited, and belong to one main container of a pod."
REMEDIATION = (
    "Set the same whole number under resources.limits and resources.requests of the one container that computes."
)
FRAMEWORKS = {Framework.GPU: "gpu-request"}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield broken, unequal and missing amounts, and GPUs of any container but the first main one that has some."""
    owner: Container | None = None
    for container in thing.containers:
        for name in gpus_of(container):
            yield from _amounts(container, name)
            if container.role != "container" or owner not in (None, container):
                field = container.field["resources"]["limits"][name]
                yield Finding(
                    field.path, f"{container.who}: holds {name}; only one main container of a pod may hold GPUs"
                )
            else:
                owner = container


def _amounts(container: Container, name: str) -> Iterator[Finding]:
    resources = container.field["resources"]
    limit, request = resources["limits"][name], resources["requests"][name]
    amount = quantity(limit.value)
    if amount is None or amount < 0 or amount % 1:
        yield limit.refuse(container.who, "set a whole number")
    elif request.value is not None and quantity(request.value) != amount:
        yield request.refuse(container.who, f"it must equal the limit, {limit.said}")
