"""On Windows nodes too, a container is not a process of the node."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "host-process"
SEVERITY = Severity.CRITICAL
DESCRIPTION = "Windows containers are not HostProcess containers."
REMEDIATION = "Remove securityContext.windowsOptions.hostProcess."
FRAMEWORKS = {
    Framework.PSS_BASELINE: "windowsHostProcess",
    Framework.PSS_RESTRICTED: "windowsHostProcess",
    Framework.CIS: "5.2.11",
}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield pods and containers that ask for it, or may."""
    if thing.pod is None:
        return
    for bearer in thing.pod.bearers:
        flag = bearer.security["windowsOptions"]["hostProcess"]
        if flag.value not in (None, False):
            yield flag.refuse(bearer.who, "remove it")
