"""A tenant's peers in other namespaces are those of the platform and the cluster, by labels that nobody can claim."""

from collections.abc import Iterator

from policy.baseline import TENANT_LABEL
from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.objects import Object, World
from policy.permits import Rule, rules
from policy.plain import UNKNOWN
from policy.selection import names_by_value

ID = "foreign-peers"
SEVERITY = Severity.HIGH
DESCRIPTION = "Rules in tenants' namespaces pin other namespaces by name, no other tenant's, and pods and ports there."
REMEDIATION = (
    "Pin the namespace by matchLabels {kubernetes.io/metadata.name: NAME}, its pods by podSelector; name ports."
)
FRAMEWORKS = {Framework.NSA: "C-0030", Framework.SYSTEM_A: "S12, S14"}

NAME_LABEL = "kubernetes.io/metadata.name"
"""The API server sets it itself on every namespace, and lets nobody change it."""


def set_violations(world: World) -> Iterator[tuple[Object, Finding]]:
    """Yield peers in namespaces that are not surely named, or are another tenant's."""
    tenants = _tenants(world)
    for rule in rules(world):
        for peer in rule.peers.each():
            if peer["namespaceSelector"].value is not None:
                found = _named(rule, peer) if rule.policy.home in world.platform else _pinned(rule, peer, tenants)
                yield from ((rule.policy, finding) for finding in found)


def _tenants(world: World) -> dict[str, object]:
    """Map each namespace of the set that is not surely the platform's to the tenant that it belongs to.

    Of twins, nobody knows which is kept.
    """
    found: dict[str, object] = {}
    for item in world.namespaces:
        tenant = item.metadata["labels"][TENANT_LABEL].value
        if item.name not in world.platform:
            found[item.name] = tenant if found.get(item.name, tenant) == tenant else UNKNOWN
    return found


def _named(rule: Rule, peer: Field) -> Iterator[Finding]:
    spaces = peer["namespaceSelector"]
    if not (names_by_value(spaces, NAME_LABEL) or _asks_for_tenants(spaces)):
        advice = f"name namespaces by {NAME_LABEL}, or tenants' by {TENANT_LABEL}: others may carry any other label"
        yield spaces.refuse(rule.who, advice)
    elif rule.ports is None:
        yield rule.field["ports"].refuse(rule.who, "name the single ports that other namespaces share")


def _asks_for_tenants(spaces: Field) -> bool:
    exists = any(
        (demand["key"].value, demand["operator"].value) == (TENANT_LABEL, "Exists")
        for demand in spaces["matchExpressions"].each()
    )
    return exists or names_by_value(spaces, TENANT_LABEL)


def _pinned(rule: Rule, peer: Field, tenants: dict[str, object]) -> Iterator[Finding]:
    pin, home = peer["namespaceSelector"]["matchLabels"][NAME_LABEL], rule.policy.home
    if not isinstance(pin.value, str):
        advice = f"pin one namespace by matchLabels {NAME_LABEL}: no other label is proof of whose it is"
        yield peer["namespaceSelector"].refuse(rule.who, advice)
    elif pin.value == home:
        return
    elif pin.value in tenants and not _same(tenants[pin.value], tenants.get(home or "")):
        yield pin.refuse(rule.who, "remove it: that namespace is another tenant's")
    elif not names_by_value(peer["podSelector"]):
        yield peer["podSelector"].refuse(rule.who, f"name the pods of {pin.value} by a label's value")
    elif rule.ports is None:
        yield rule.field["ports"].refuse(rule.who, f"name the single ports that {pin.value} shares")


def _same(one: object, other: object) -> bool:
    return isinstance(one, str) and one == other
