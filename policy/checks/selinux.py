"""A container keeps the SELinux label that the runtime gives to containers."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.objects import Object

ID = "selinux"
SEVERITY = Severity.MEDIUM
DESCRIPTION = "SELinux options name no user, no role and only the types made for containers."
REMEDIATION = "Remove securityContext.seLinuxOptions."
FRAMEWORKS = {Framework.PSS_BASELINE: "seLinuxOptions", Framework.PSS_RESTRICTED: "seLinuxOptions"}

TYPES = (None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
"""What container-selinux confines (Pod Security baseline)."""


def violations(thing: Object) -> Iterator[Finding]:
    """Yield user, role and foreign types, on the pod and in containers."""
    if thing.pod is not None:
        for bearer in thing.pod.bearers:
            yield from _options(bearer.who, bearer.security["seLinuxOptions"])


def _options(who: str, options: Field) -> Iterator[Finding]:
    for key, allowed in (("type", TYPES), ("user", (None, "")), ("role", (None, ""))):
        if options[key].value not in allowed:
            yield options[key].refuse(who, "remove it")
