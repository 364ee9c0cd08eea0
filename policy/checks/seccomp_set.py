"""Without a profile, Kubernetes leaves every system call open."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object
from policy.plain import UNKNOWN

ID = "seccomp-set"
SEVERITY = Severity.MEDIUM
DESCRIPTION = "Every container has a seccomp profile, its own or its pod's."
REMEDIATION = "Set securityContext.seccompProfile.type to RuntimeDefault on the pod."
FRAMEWORKS = {
    Framework.PSS_RESTRICTED: "seccompProfile_restricted",
    Framework.NSA: "C-0055",
    Framework.CIS: "5.7.2",
    Framework.SYSTEM_A: "1.7",
}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield containers that neither have nor inherit a profile for sure."""
    if thing.pod is None or thing.pod.security["seccompProfile"].value not in (None, UNKNOWN):
        return
    for container in thing.containers:
        profile = container.security["seccompProfile"]
        if profile.value in (None, UNKNOWN):
            yield profile.refuse(container.who, "set {type: RuntimeDefault}, here or on the pod")
