"""Whoever is let in or out is named."""

from collections.abc import Iterator
from typing import Final

from policy.baseline import OPEN_PORTS
from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.objects import Object, World
from policy.permits import Rule, rules

ID = "open-peers"
SEVERITY = Severity.HIGH
DESCRIPTION = (
    "Rules of NetworkPolicies name their peers; only the platform is reached from any address, on named ports."
)
REMEDIATION = "Name the peers by podSelector, with a namespaceSelector for pods of another namespace."
FRAMEWORKS = {Framework.NSA: "C-0030", Framework.SYSTEM_A: "S14"}


OPEN: Final = ", ".join(map(str, sorted(OPEN_PORTS)))


def set_violations(world: World) -> Iterator[tuple[Object, Finding]]:
    """Yield rules without peers, peers that are nobody or anybody, and doors for addresses that are no entrance."""
    for rule in rules(world):
        door = rule.direction == "ingress" and rule.policy.home in world.platform
        entrance = door and rule.ports is not None and rule.ports <= OPEN_PORTS.keys()
        yield from ((rule.policy, finding) for finding in _opened(rule, entrance=entrance))


def _opened(rule: Rule, *, entrance: bool) -> Iterator[Finding]:
    peers = list(rule.peers.each())
    if not peers and not entrance:
        exempt = f" (only the platform's ports {OPEN} are open to all)" if rule.direction == "ingress" else ""
        yield Finding(rule.peers.path, f"{rule.who}: it permits every peer; name its peers{exempt}")
    for peer in peers:
        if type(peer.value) is not dict or not any(value.value is not None for _, value in peer.pairs()):
            advice = "name it by podSelector, namespaceSelector or ipBlock"
            yield Finding(peer.path, f"{rule.who}: a peer is {peer.said}; {advice}")
        elif peer["ipBlock"].value is not None:
            yield from _addressed(rule, peer, entrance=entrance)


def _addressed(rule: Rule, peer: Field, *, entrance: bool) -> Iterator[Finding]:
    for key in ("podSelector", "namespaceSelector"):
        if peer[key].value is not None:
            yield peer[key].refuse(rule.who, "remove it: the API server refuses a selector beside an ipBlock")
    if rule.direction == "ingress" and not entrance:
        advice = f"addresses reach only the platform's ports {OPEN}; name pods"
        yield Finding(peer["ipBlock"].path, f"{rule.who}: {advice}")
