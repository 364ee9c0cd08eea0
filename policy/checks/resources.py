"""What a container may use is said, so that no tenant starves another."""

from collections.abc import Iterator
from decimal import Decimal

from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.objects import Container, Object
from policy.quantity import quantity

ID = "resources"
SEVERITY = Severity.MEDIUM
DESCRIPTION = "Containers of every kind request and limit cpu and memory."
REMEDIATION = "Set resources.requests and resources.limits for cpu and memory, no request above its limit."
FRAMEWORKS = {Framework.NSA: "C-0270, C-0271"}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield missing, meaningless and contradictory amounts; the API takes none for ephemeral containers."""
    for container in thing.containers:
        if container.role != "ephemeral container":
            for name in ("cpu", "memory"):
                yield from _amounts(container, name)


def _amounts(container: Container, name: str) -> Iterator[Finding]:
    resources = container.field["resources"]
    limit, request = resources["limits"][name], resources["requests"][name]
    known = {field: amount for field in (limit, request) if (amount := _positive(field))}
    for field in (limit, request):
        if field not in known:
            yield field.refuse(container.who, "set an amount above 0")
    if limit in known and request in known and known[request] > known[limit]:
        yield request.refuse(container.who, f"it is above the limit of {limit.said}")


def _positive(field: Field) -> Decimal | None:
    amount = quantity(field.value)
    return amount if amount is not None and amount > 0 else None
