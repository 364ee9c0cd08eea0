"""The kernel's rarely used system calls stay closed."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.objects import Object

ID = "seccomp"
SEVERITY = Severity.MEDIUM
DESCRIPTION = "Containers run under the seccomp profile RuntimeDefault or a Localhost one."
REMEDIATION = "Set securityContext.seccompProfile.type to RuntimeDefault on the pod."
FRAMEWORKS = {
    Framework.PSS_BASELINE: "seccompProfile_baseline",
    Framework.PSS_RESTRICTED: "seccompProfile_restricted",
    Framework.NSA: "C-0055",
    Framework.CIS: "5.7.2",
    Framework.SYSTEM_A: "1.7",
}
ADVICE = "set RuntimeDefault or Localhost, here or on the pod"


def violations(thing: Object) -> Iterator[Finding]:
    """Yield a bad profile of the pod, and containers whose own or inherited profile is bad."""
    if thing.pod is None:
        return
    profile = thing.pod.security["seccompProfile"]
    if profile.value is not None and not _confines(profile):
        yield profile["type"].refuse(thing.pod.who, ADVICE)
    for container in thing.containers:
        own = container.security["seccompProfile"]
        if not _confines(own) and (own.value is not None or profile.value is None):
            yield own["type"].refuse(container.who, ADVICE)


def _confines(profile: Field) -> bool:
    return profile["type"].value in ("RuntimeDefault", "Localhost")
