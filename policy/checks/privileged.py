"""A privileged container is root on the node."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "privileged"
SEVERITY = Severity.CRITICAL
DESCRIPTION = "Containers are not privileged."
REMEDIATION = "Remove securityContext.privileged."
FRAMEWORKS = {
    Framework.PSS_BASELINE: "privileged",
    Framework.PSS_RESTRICTED: "privileged",
    Framework.NSA: "C-0057",
    Framework.CIS: "5.2.2",
}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield containers that are privileged, or may be."""
    for container in thing.containers:
        flag = container.security["privileged"]
        if flag.value not in (None, False):
            yield flag.refuse(container.who, "remove it")
