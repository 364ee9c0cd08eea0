"""Only volumes that stay inside what Kubernetes itself hands out."""

from collections.abc import Iterator

from policy.baseline import VOLUME_TYPES
from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "volume-types"
SEVERITY = Severity.HIGH
DESCRIPTION = f"Pods mount only volumes of these types: {', '.join(sorted(VOLUME_TYPES))}."
REMEDIATION = "Use a PersistentVolumeClaim in place of a network export or a device."
FRAMEWORKS = {Framework.PSS_RESTRICTED: "restrictedVolumes", Framework.NSA: "C-0045"}

JUDGED_ELSEWHERE = frozenset({"name", "hostPath"})
"""`hostPath` has a check of its own; a volume without any type is an emptyDir."""


def violations(thing: Object) -> Iterator[Finding]:
    """Yield volumes of any other type."""
    if thing.pod is None:
        return
    for volume in thing.pod.spec["volumes"].each():
        for key, source in volume.pairs():
            if key not in VOLUME_TYPES | JUDGED_ELSEWHERE and source.value is not None:
                who = f"volume {volume['name'].said}"
                yield Finding(
                    source.path, f"{who}: type {key} is not allowed; use one of {', '.join(sorted(VOLUME_TYPES))}"
                )
