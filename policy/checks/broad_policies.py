"""Whoever permits something says to whom."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object, World
from policy.permits import rules_of
from policy.selection import names_some

ID = "broad-policies"
SEVERITY = Severity.HIGH
DESCRIPTION = "A NetworkPolicy with rules names its pods by a label that they carry."
REMEDIATION = "Name the pods in podSelector by matchLabels, In or Exists; only a policy without rules selects all pods."
FRAMEWORKS = {Framework.GPU_RUNTIME: "broad-policies"}


def set_violations(world: World) -> Iterator[tuple[Object, Finding]]:
    """Yield policies that permit something to pods that they do not name, or may."""
    for policy in world.policies:
        selector = policy.root["spec"]["podSelector"]
        if not names_some(selector) and any(rules_of(policy)):
            yield policy, selector.refuse("policy", "name the pods that its rules are for by a label that they carry")
