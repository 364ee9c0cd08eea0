"""No pod without a wall around its incoming connections."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object, World
from policy.walls import unwalled

ID = "ingress-walls"
SEVERITY = Severity.HIGH
DESCRIPTION = "Every pod is selected by a NetworkPolicy for ingress in its namespace."
REMEDIATION = "Put a NetworkPolicy {podSelector: {}, policyTypes: [Ingress, Egress]} into the namespace before any pod."
FRAMEWORKS = {Framework.NSA: "C-0030, C-0260", Framework.CIS: "5.3.2"}


def set_violations(world: World) -> Iterator[tuple[Object, Finding]]:
    """Yield pods that no policy surely selects."""
    return unwalled(world, "Ingress")
