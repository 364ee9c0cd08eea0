"""A container keeps the AppArmor profile of the runtime, or one that the node brings."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "apparmor"
SEVERITY = Severity.MEDIUM
DESCRIPTION = "AppArmor is not switched off, neither by field nor by annotation."
REMEDIATION = "Remove securityContext.appArmorProfile and the annotation, or set the type RuntimeDefault."
FRAMEWORKS = {Framework.PSS_BASELINE: "appArmorProfile", Framework.PSS_RESTRICTED: "appArmorProfile"}

ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
"""Prefix of the old form, which clusters before 1.30 still obey."""

EVERY_KEY = "*"
"""What stands for the annotations when nobody knows them."""


def violations(thing: Object) -> Iterator[Finding]:
    """Yield profiles that confine nothing."""
    if thing.pod is None:
        return
    for bearer in thing.pod.bearers:
        profile = bearer.security["appArmorProfile"]
        if profile.value is not None and profile["type"].value not in ("RuntimeDefault", "Localhost"):
            yield profile["type"].refuse(bearer.who, "set RuntimeDefault or Localhost")
    for key, value in thing.pod.annotations.pairs():
        if key.startswith((ANNOTATION, EVERY_KEY)) and not _confines(value.value):
            yield value.refuse(thing.pod.who, "remove it")


def _confines(profile: object) -> bool:
    return isinstance(profile, str) and (profile in ("", "runtime/default") or profile.startswith("localhost/"))
