"""What no rule permits is denied, also to pods that nobody has thought of yet."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object, World
from policy.selection import breadth

ID = "default-deny"
SEVERITY = Severity.HIGH
DESCRIPTION = "Every Namespace has a NetworkPolicy that selects all pods, for both directions, and permits nothing."
REMEDIATION = "Put a NetworkPolicy {podSelector: {}, policyTypes: [Ingress, Egress]} without rules into the namespace."
FRAMEWORKS = {Framework.NSA: "C-0260", Framework.CIS: "5.3.2", Framework.SYSTEM_A: "S3, S14"}


def set_violations(world: World) -> Iterator[tuple[Object, Finding]]:
    """Yield Namespaces that no policy surely closes."""
    closed = {policy.home for policy in world.policies if _closes(policy)}
    for namespace in world.namespaces:
        name = namespace.metadata["name"]
        if not (isinstance(name.value, str) and name.value in closed):
            advice = "add one {podSelector: {}, policyTypes: [Ingress, Egress]}"
            yield namespace, Finding(name.path, f"namespace: no NetworkPolicy without rules closes it; {advice}")


def _closes(policy: Object) -> bool:
    spec = policy.root["spec"]
    types = {item.value for item in spec["policyTypes"].each()}
    permits_nothing = all(spec[direction].value in (None, []) for direction in ("ingress", "egress"))
    return breadth(spec["podSelector"]) == 0 and types == {"Ingress", "Egress"} and permits_nothing
