"""A container keeps none of root's powers, not even the runtime's default ones."""

from collections.abc import Iterator

from policy.baseline import ALLOWED_CAPABILITIES, DEFAULT_CAPABILITIES
from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object
from policy.plain import UNKNOWN

ID = "dropped-capabilities"
SEVERITY = Severity.HIGH
DESCRIPTION = f"Containers drop all capabilities and take none back but {', '.join(sorted(ALLOWED_CAPABILITIES))}."
REMEDIATION = 'Set securityContext.capabilities to {drop: ["ALL"]} in every container.'
FRAMEWORKS = {
    Framework.PSS_RESTRICTED: "capabilities_restricted",
    Framework.NSA: "C-0046",
    Framework.CIS: "5.2.10",
    Framework.SYSTEM_A: "1.7",
}

TAKEN_BACK = (UNKNOWN, *sorted(DEFAULT_CAPABILITIES - ALLOWED_CAPABILITIES))
"""What may not be taken back; anything beyond the default is for `added-capabilities` to refuse."""


def violations(thing: Object) -> Iterator[Finding]:
    """Yield containers that do not drop ALL, and default capabilities that they take back."""
    for container in thing.containers:
        capabilities = container.security["capabilities"]
        if all(item.value != "ALL" for item in capabilities["drop"].each()):
            yield capabilities["drop"].refuse(container.who, 'drop ["ALL"]')
        for item in capabilities["add"].each():
            if item.value in TAKEN_BACK:
                yield Finding(item.path, f"{container.who}: takes back the capability {item.said}; remove it")
