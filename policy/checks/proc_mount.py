"""The masked paths of /proc stay masked."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "proc-mount"
SEVERITY = Severity.HIGH
DESCRIPTION = "Containers keep the default masks of /proc."
REMEDIATION = "Remove securityContext.procMount."
FRAMEWORKS = {Framework.PSS_BASELINE: "procMount", Framework.PSS_RESTRICTED: "procMount_restricted"}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield containers with another view of /proc."""
    for container in thing.containers:
        mount = container.security["procMount"]
        if mount.value not in (None, "", "Default"):
            yield mount.refuse(container.who, "remove it")
