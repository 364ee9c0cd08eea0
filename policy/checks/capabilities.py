"""A container keeps none of root's powers."""

from collections.abc import Iterator

from policy.baseline import ALLOWED_CAPABILITIES
from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "capabilities"
SEVERITY = Severity.HIGH
DESCRIPTION = "Containers drop all capabilities and add none but NET_BIND_SERVICE."
REMEDIATION = 'Set securityContext.capabilities to {drop: ["ALL"]} in every container.'
FRAMEWORKS = {
    Framework.PSS_BASELINE: "capabilities_baseline",
    Framework.PSS_RESTRICTED: "capabilities_restricted",
    Framework.NSA: "C-0046",
    Framework.CIS: "5.2.8-5.2.10",
    Framework.SYSTEM_A: "1.7",
}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield containers that do not drop ALL, and every capability that is added."""
    for container in thing.containers:
        capabilities = container.security["capabilities"]
        dropped = capabilities["drop"]
        if all(item.value != "ALL" for item in dropped.each()):
            yield dropped.refuse(container.who, 'drop ["ALL"]')
        for item in capabilities["add"].each():
            if not (isinstance(item.value, str) and item.value in ALLOWED_CAPABILITIES):
                yield Finding(item.path, f"{container.who}: adds the capability {item.said}; remove it")
