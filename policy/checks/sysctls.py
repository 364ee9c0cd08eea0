"""Kernel parameters that reach beyond the pod stay as they are."""

from collections.abc import Iterator

from policy.baseline import SAFE_SYSCTLS
from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "sysctls"
SEVERITY = Severity.MEDIUM
DESCRIPTION = "Pods set only sysctls that change nothing but the pod."
REMEDIATION = "Remove the sysctl."
FRAMEWORKS = {Framework.PSS_BASELINE: "sysctls", Framework.PSS_RESTRICTED: "sysctls"}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield sysctls that are not known to be safe."""
    if thing.pod is None:
        return
    for sysctl in thing.pod.security["sysctls"].each():
        name = sysctl["name"]
        if not (isinstance(name.value, str) and name.value in SAFE_SYSCTLS):
            yield Finding(name.path, f"pod: sysctl {name.said} is not safe; remove it")
