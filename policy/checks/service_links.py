"""A pod is not told of its namespace's Services."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "service-links"
SEVERITY = Severity.LOW
DESCRIPTION = "Pods get no environment variables about Services."
REMEDIATION = "Set enableServiceLinks to false on the pod."
FRAMEWORKS = {Framework.GPU_RUNTIME: "service-links"}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield pods that do not say no."""
    if thing.pod is not None:
        flag = thing.pod.spec["enableServiceLinks"]
        if flag.value is not False:
            yield flag.refuse(thing.pod.who, "set it to false")
