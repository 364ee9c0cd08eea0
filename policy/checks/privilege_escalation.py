"""A process must not gain more privileges than its parent."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "privilege-escalation"
SEVERITY = Severity.HIGH
DESCRIPTION = "Containers forbid privilege escalation."
REMEDIATION = "Set securityContext.allowPrivilegeEscalation to false in every container."
FRAMEWORKS = {
    Framework.PSS_RESTRICTED: "allowPrivilegeEscalation",
    Framework.NSA: "C-0016",
    Framework.CIS: "5.2.6",
    Framework.SYSTEM_A: "1.7",
}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield containers that do not forbid it; privileged ones cannot and break another check already."""
    for container in thing.containers:
        flag = container.security["allowPrivilegeEscalation"]
        if flag.value is not False and container.security["privileged"].value is not True:
            yield flag.refuse(container.who, "set it to false")
