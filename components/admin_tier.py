"""The admin tier, where a cluster has one: what no later NetworkPolicy in a tenant's namespace can open again.

A ClusterNetworkPolicy of the tier Admin is asked before all NetworkPolicies, rule by rule. What the table of flows
permits is passed on to them; other namespaces and every blocked range are denied; the rest is theirs to judge again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_network, summarize_address_range
from itertools import zip_longest
from typing import Literal, TypeVar

from components import names, ranges
from components.flows import Addresses, Flow, Party, Pods, Port, Ports
from components.kube import metadata
from components.model import Manifest
from policy.baseline import BLOCKED

API_VERSION = "policy.networking.k8s.io/v1alpha2"

MOST = 25
"""Rules of a policy and direction, peers and ports of a rule, networks of a peer: the kind takes no more of any."""

PRIORITY = 500
"""The middle: a site has room for policies of its own before ours (lower numbers) and after."""

Side = Literal["to", "from"]
T = TypeVar("T")


def admin_manifests(
    namespace: str, labels: names.Labels, flows: Iterable[Flow], site: Iterable[str]
) -> dict[str, Manifest]:
    """Build the ClusterNetworkPolicies of a tenant's *namespace*: one, or more where the kind's limits ask for it.

    *flows* is the table; rows of other namespaces do not count. *site* are the ranges that are closed beside the
    built-in ones. Several policies are asked in the order of their numbers, so that they are one list of rules.
    """
    out, into = _beyond(namespace, list(flows))
    own: list[Manifest] = [{"namespaces": names.namespace_selector(namespace)}]
    others: list[Manifest] = [{"namespaces": {}}]
    blocked = _networks(ranges.texts(ranges.merged((*BLOCKED, *site))))
    egress = [
        *_rules("own namespace", "Pass", "to", own),
        *_passed_pods("to", out),
        *_rules("other namespaces", "Deny", "to", others),
        *_passed_ranges(out),  # after the Deny of pods, should a range hold some
        *_rules("blocked ranges", "Deny", "to", blocked),
    ]
    ingress = [
        *_rules("own namespace", "Pass", "from", own),
        *_passed_pods("from", into),
        *_rules("other namespaces", "Deny", "from", others),
    ]
    parts: Iterable[tuple[list[Manifest], list[Manifest]]]
    parts = zip_longest(_batches(egress), _batches(ingress), fillvalue=[])
    return {
        f"admin-tier-{index + 1}" if index else "admin-tier": _policy(namespace, labels, index, *rules)
        for index, rules in enumerate(parts)
    }


def _policy(
    namespace: str, labels: names.Labels, index: int, egress: list[Manifest], ingress: list[Manifest]
) -> Manifest:
    """Build policy *index* of a namespace; a dot parts the number from the name, because no namespace has one."""
    name = f"{names.PROJECT}.{namespace}" + (f".{index + 1}" if index else "")
    rules = {"ingress": ingress, "egress": egress}
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterNetworkPolicy",
        "metadata": metadata(name, None, labels),
        "spec": {
            "tier": "Admin",
            "priority": PRIORITY + index,
            "subject": {"namespaces": names.namespace_selector(namespace)},
            **{direction: found for direction, found in rules.items() if found},
        },
    }


def _beyond(namespace: str, flows: Sequence[Flow]) -> tuple[list[tuple[Party, Ports]], list[tuple[Party, Ports]]]:
    """Give whom the pods of *namespace* may call outside of it, and who may call them from there."""
    out = [(flow.target, flow.ports) for flow in flows if _is_of(namespace, flow.source)]
    into = [(flow.source, flow.ports) for flow in flows if _is_of(namespace, flow.target)]
    return [one for one in out if not _is_of(namespace, one[0])], [one for one in into if not _is_of(namespace, one[0])]


def _is_of(namespace: str, party: Party) -> bool:
    """Say whether a party are pods of *namespace*, perhaps as those of every tenant."""
    return isinstance(party, Pods) and party.namespace in (None, namespace)


def _passed_pods(side: Side, parties: Iterable[tuple[Party, Ports]]) -> Iterator[Manifest]:
    """Leave to NetworkPolicies the pods that the table permits."""
    peers: dict[Ports, list[Manifest]] = defaultdict(list)
    for party, ports in parties:
        if isinstance(party, Pods) and party.namespace is not None:
            peer = {"namespaceSelector": names.namespace_selector(party.namespace), "podSelector": party.selector}
            peers[ports] += [{"pods": peer}] if {"pods": peer} not in peers[ports] else []
    for ports, found in peers.items():
        yield from _rules("permitted pods", "Pass", side, found, ports)


def _passed_ranges(parties: Iterable[tuple[Party, Ports]]) -> Iterator[Manifest]:
    """Leave to NetworkPolicies the addresses that a stack file names; a tenant is not called from any."""
    cidrs: dict[Ports, dict[str, None]] = defaultdict(dict)
    for party, ports in parties:
        if isinstance(party, Addresses) and party.named:
            cidrs[ports].update((cidr, None) for block in party.blocks for cidr in _left(block))
    for ports, found in cidrs.items():
        yield from _rules("permitted ranges", "Pass", "to", _networks(list(found)), ports)


def _left(block: ranges.Block) -> Iterator[str]:
    """Write a range less its exceptions, sorted and disjoint as they are, as ranges: this kind knows no exceptions."""
    whole = ip_network(block.cidr)
    family, first = type(whole.network_address), int(whole.network_address)
    for gone in map(ip_network, block.excepted):
        if first < int(gone.network_address):
            yield from map(str, summarize_address_range(family(first), family(int(gone.network_address) - 1)))
        first = int(gone.broadcast_address) + 1
    if first <= int(whole.broadcast_address):
        yield from map(str, summarize_address_range(family(first), whole.broadcast_address))


def _networks(cidrs: Sequence[str]) -> list[Manifest]:
    return [{"networks": few} for few in _batches(cidrs)]


def _rules(
    name: str, action: Literal["Deny", "Pass"], side: Side, peers: Sequence[Manifest], ports: Ports = ()
) -> Iterator[Manifest]:
    """Write one rule, or as many as the peers and ports need; no *ports*: all of every protocol."""
    for few in _batches(peers):
        for some in _batches(ports) or [[]]:
            protocols = {"protocols": [_protocol(port) for port in some]} if some else {}
            yield {"name": name, "action": action, side: few, **protocols}


def _protocol(port: Port) -> Manifest:
    return {port.protocol.lower(): {"destinationPort": {"number": port.number}}}


def _batches(items: Sequence[T]) -> list[list[T]]:
    return [list(items[start : start + MOST]) for start in range(0, len(items), MOST)]
