"""Nobody is root, but where root is nobody: in a user namespace of the pod's own."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.objects import Object

ID = "non-root"
SEVERITY = Severity.HIGH
DESCRIPTION = "Containers run as a user that is not root, or in a user namespace of the pod's own."
REMEDIATION = (
    "Set securityContext.runAsNonRoot to true and runAsUser to a number above 0 on the pod, or hostUsers: false."
)
FRAMEWORKS = {
    Framework.PSS_RESTRICTED: "runAsNonRoot, runAsUser",
    Framework.NSA: "C-0013",
    Framework.CIS: "5.2.7",
}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield pods and containers that run as root, or may; what a container says overrides its pod.

    With `hostUsers: false`, known and literally that, root inside is an unprivileged user of the node (Pod Security
    from 1.35 on); it must be said all the same, as user 0 and as `runAsNonRoot: false`.
    """
    if thing.pod is None:
        return
    inside = thing.pod.spec["hostUsers"].value is False
    lowest, said = (0, (True, False)) if inside else (1, (True,))
    yield from _user(thing.pod.who, thing.pod.security, lowest)
    promised = thing.pod.security["runAsNonRoot"]
    if promised.value is not None and promised.value not in said:
        yield promised.refuse(thing.pod.who, "set it to true")
    for container in thing.containers:
        yield from _user(container.who, container.security, lowest)
        own = container.security["runAsNonRoot"]
        if own.value not in said and (own.value is not None or promised.value is None):
            yield own.refuse(container.who, "set it to true, here or on the pod")


def _user(who: str, security: Field, lowest: int) -> Iterator[Finding]:
    user = security["runAsUser"]
    if user.value is not None and not (type(user.value) is int and user.value >= lowest):
        yield user.refuse(who, "name a user above 0")
