"""Nobody is root, not even inside."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.objects import Object

ID = "non-root"
SEVERITY = Severity.HIGH
DESCRIPTION = "Containers run as a user that is not root."
REMEDIATION = "Set securityContext.runAsNonRoot to true and runAsUser to a number above 0 on the pod."
FRAMEWORKS = {
    Framework.PSS_RESTRICTED: "runAsNonRoot, runAsUser",
    Framework.NSA: "C-0013",
    Framework.CIS: "5.2.7",
}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield pods and containers that run as root, or may; what a container says overrides its pod."""
    if thing.pod is None:
        return
    yield from _user(thing.pod.who, thing.pod.security)
    promised = thing.pod.security["runAsNonRoot"]
    if promised.value not in (None, True):
        yield promised.refuse(thing.pod.who, "set it to true")
    for container in thing.containers:
        yield from _user(container.who, container.security)
        own = container.security["runAsNonRoot"]
        if own.value is not True and (own.value is not None or promised.value is None):
            yield own.refuse(container.who, "set it to true, here or on the pod")


def _user(who: str, security: Field) -> Iterator[Finding]:
    user = security["runAsUser"]
    if user.value is not None and not (type(user.value) is int and user.value > 0):
        yield user.refuse(who, "name a user above 0")
