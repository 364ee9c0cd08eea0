"""A pod sees neither the node's network nor its processes."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "host-namespaces"
SEVERITY = Severity.CRITICAL
DESCRIPTION = "Pods do not join the node's network, process or IPC namespace."
REMEDIATION = "Remove hostNetwork, hostPID and hostIPC."
FRAMEWORKS = {
    Framework.PSS_BASELINE: "hostNamespaces",
    Framework.PSS_RESTRICTED: "hostNamespaces",
    Framework.NSA: "C-0038, C-0041",
    Framework.CIS: "5.2.3-5.2.5",
}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield each namespace of the node that the pod joins, or may join."""
    if thing.pod is None:
        return
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        flag = thing.pod.spec[key]
        if flag.value not in (None, False):
            yield flag.refuse(thing.pod.who, "remove it")
