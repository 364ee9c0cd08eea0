"""A tenant's namespace has no door of its own to the outside."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object, World

ID = "exposed-services"
SEVERITY = Severity.HIGH
DESCRIPTION = "Services in tenants' namespaces are ClusterIP Services without external addresses."
REMEDIATION = "Use a ClusterIP Service; ssh and web ports go through the platform's tiers."
FRAMEWORKS = {Framework.GPU_RUNTIME: "exposed-services"}


def set_violations(world: World) -> Iterator[tuple[Object, Finding]]:
    """Yield Services that open, or may open, a namespace that is not surely the platform's."""
    for thing in world.objects:
        if thing.is_a("", "Service") and thing.home not in world.platform:
            yield from ((thing, finding) for finding in _opened(thing))


def _opened(service: Object) -> Iterator[Finding]:
    kind, spec = service.root["spec"]["type"], service.root["spec"]
    if kind.value not in (None, "", "ClusterIP"):
        yield kind.refuse("service", "a tenant's Service must be ClusterIP")
    for address in spec["externalIPs"].each():
        yield Finding(address.path, f"service: external address {address.said}; remove it")
