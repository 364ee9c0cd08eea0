"""The kubelet must not be sent to hosts that the pod itself cannot reach."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.objects import Container, Object

ID = "host-probes"
SEVERITY = Severity.MEDIUM
DESCRIPTION = "Probes and lifecycle hooks name no host."
REMEDIATION = "Remove host from httpGet and tcpSocket; the pod's own address is the default."
FRAMEWORKS = {
    Framework.PSS_BASELINE: "hostProbesAndHostLifecycle",
    Framework.PSS_RESTRICTED: "hostProbesAndHostLifecycle",
}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield every host in a probe or hook."""
    for container in thing.containers:
        for handler in _handlers(container):
            for action in ("httpGet", "tcpSocket"):
                host = handler[action]["host"]
                if host.value not in (None, ""):
                    yield host.refuse(container.who, "remove it")


def _handlers(container: Container) -> Iterator[Field]:
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        yield container.field[probe]
    for hook in ("postStart", "preStop"):
        yield container.field["lifecycle"][hook]
