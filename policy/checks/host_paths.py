"""The node's disk stays the node's."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.objects import Object

ID = "host-paths"
SEVERITY = Severity.CRITICAL
DESCRIPTION = "Neither pods nor persistent volumes mount a path of the node."
REMEDIATION = "Use a PersistentVolumeClaim, an emptyDir or a ConfigMap."
FRAMEWORKS = {
    Framework.PSS_BASELINE: "hostPathVolumes",
    Framework.PSS_RESTRICTED: "hostPathVolumes",
    Framework.NSA: "C-0048",
    Framework.CIS: "5.2.12",
}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield hostPath volumes, also those that a claim could bring into a pod."""
    if thing.is_a("", "PersistentVolume"):
        yield from _host_path("persistent volume", thing.root["spec"])
    if thing.pod is not None:
        for volume in thing.pod.spec["volumes"].each():
            yield from _host_path(f"volume {volume['name'].said}", volume)


def _host_path(who: str, volume: Field) -> Iterator[Finding]:
    path = volume["hostPath"]
    if path.value is not None:
        yield Finding(path.path, f"{who}: mounts a path of the node; use a claim, an emptyDir or a ConfigMap")
