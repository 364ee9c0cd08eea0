"""No container gets a power of root that the runtime's default does not give."""

from collections.abc import Iterator

from policy.baseline import DEFAULT_CAPABILITIES
from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "added-capabilities"
SEVERITY = Severity.CRITICAL
DESCRIPTION = "Containers add no capability beyond the runtime's default."
REMEDIATION = "Remove it from securityContext.capabilities.add."
FRAMEWORKS = {
    Framework.PSS_BASELINE: "capabilities_baseline",
    Framework.PSS_RESTRICTED: "capabilities_baseline",
    Framework.NSA: "C-0046",
    Framework.CIS: "5.2.8-5.2.9",
}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield every capability that is added and dangerous, or not known."""
    for container in thing.containers:
        for item in container.security["capabilities"]["add"].each():
            if not (isinstance(item.value, str) and item.value in DEFAULT_CAPABILITIES):
                yield Finding(item.path, f"{container.who}: adds the capability {item.said}; remove it")
