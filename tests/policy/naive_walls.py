"""NetworkPolicy semantics a second time, as plainly as the Kubernetes documentation tells them: slow, and no reasons.

It shares nothing with policy.reach: both must say the same of whatever world is made up.
"""

from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

Json = dict[str, Any]


class Thing(NamedTuple):
    """An end of a connection; an address alone has no namespace."""

    address: str
    namespace: str | None = None
    labels: Json = {}  # noqa: RUF012 - a NamedTuple's default, never written to
    ports: Json = {}  # noqa: RUF012 - name to number, TCP


class World(NamedTuple):
    namespaces: dict[str, Json]
    policies: list[Json]


def passes(world: World, source: Thing, target: Thing, port: int, protocol: str) -> bool:
    """Say whether both sides let a connection pass."""
    if source == target:
        return True
    call = (port, protocol)
    return side(world, "Egress", source, target, target, call) and side(world, "Ingress", target, source, target, call)


def side(world: World, direction: str, subject: Thing, peer: Thing, target: Thing, call: tuple[int, str]) -> bool:
    """Say whether no policy for *direction* selects *subject*, or a rule of one that does names *peer* and port."""
    mine = [p for p in world.policies if for_direction(p["spec"], direction) and selected(p, subject)]
    key, peers = ("egress", "to") if direction == "Egress" else ("ingress", "from")
    return not mine or any(
        (not rule.get(peers) or any(named(world, policy, entry, peer) for entry in rule[peers]))
        and (not rule.get("ports") or any(port_named(entry, target, *call) for entry in rule["ports"]))
        for policy in mine
        for rule in policy["spec"].get(key) or []
    )


def for_direction(spec: Json, direction: str) -> bool:
    """Say whether the policy judges *direction*."""
    kinds = spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    return direction in kinds


def selected(policy: Json, pod: Thing) -> bool:
    """Say whether the policy is for *pod*."""
    here = pod.namespace == policy["metadata"]["namespace"]
    return here and fits(policy["spec"]["podSelector"], pod.labels)


def named(world: World, policy: Json, peer: Json, thing: Thing) -> bool:
    """Say whether an entry of `to` or `from` names *thing*."""
    if "ipBlock" in peer:
        address, block = ip_address(thing.address), peer["ipBlock"]
        inside = address in ip_network(block["cidr"])
        return inside and not any(address in ip_network(hole) for hole in block.get("except", []))
    if thing.namespace is None:
        return False
    if "namespaceSelector" in peer:
        there = {**world.namespaces[thing.namespace], "kubernetes.io/metadata.name": thing.namespace}
        if not fits(peer["namespaceSelector"], there):
            return False
    elif thing.namespace != policy["metadata"]["namespace"]:
        return False
    return fits(peer.get("podSelector", {}), thing.labels)


def port_named(entry: Json, target: Thing, port: int, protocol: str) -> bool:
    """Say whether an entry of `ports` names the port."""
    said = entry.get("port")
    if entry.get("protocol", "TCP") != protocol:
        return False
    if isinstance(said, str):
        return protocol == "TCP" and target.ports.get(said) == port
    return said is None or said <= port <= (entry.get("endPort") or said)


def fits(selector: Json, labels: Json) -> bool:
    """Say whether a label selector finds *labels*."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for demand in selector.get("matchExpressions", []):
        label, values = labels.get(demand["key"]), demand.get("values", [])
        holds = {
            "In": label in values,
            "NotIn": label not in values,
            "Exists": label is not None,
            "DoesNotExist": label is None,
        }
        if not holds[demand["operator"]]:
            return False
    return True
