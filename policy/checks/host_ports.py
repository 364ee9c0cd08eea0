"""Containers must not bind ports of the node: they would be reachable past every policy."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "host-ports"
SEVERITY = Severity.HIGH
DESCRIPTION = "Containers bind no port of the node."
REMEDIATION = "Remove hostPort and use a Service."
FRAMEWORKS = {
    Framework.PSS_BASELINE: "hostPorts",
    Framework.PSS_RESTRICTED: "hostPorts",
    Framework.NSA: "C-0044",
    Framework.CIS: "5.2.13",
}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield ports of the node that containers bind, or may bind."""
    for container in thing.containers:
        for port in container.field["ports"].each():
            host_port = port["hostPort"]
            if host_port.value not in (None, 0):
                yield host_port.refuse(container.who, "remove it")
