"""The kernel's rarely used system calls are not opened."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "seccomp"
SEVERITY = Severity.HIGH
DESCRIPTION = "No seccomp profile is Unconfined."
REMEDIATION = "Set securityContext.seccompProfile.type to RuntimeDefault."
FRAMEWORKS = {
    Framework.PSS_BASELINE: "seccompProfile_baseline",
    Framework.PSS_RESTRICTED: "seccompProfile_baseline",
    Framework.NSA: "C-0055",
    Framework.CIS: "5.7.2",
}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield profiles of pod and containers that confine nothing, or may."""
    for bearer in thing.pod.bearers if thing.pod else ():
        profile = bearer.security["seccompProfile"]
        if profile.value is not None and profile["type"].value not in ("RuntimeDefault", "Localhost"):
            yield profile["type"].refuse(bearer.who, "set RuntimeDefault or Localhost")
