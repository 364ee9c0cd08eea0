"""Read network policies: NetworkPolicy, and ClusterNetworkPolicy of policy.networking.k8s.io/v1alpha2."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final, Literal

from typing_extensions import override

from policy.ends import NOWHERE, Pod
from policy.field import Field
from policy.objects import Object
from policy.plain import UNKNOWN
from policy.rules import Action, Block, Match, Network, Peer, Ports, Rule, finds

Direction = Literal["Egress", "Ingress"]
SIDES: Final[Mapping[Direction, tuple[str, str]]] = {"Egress": ("egress", "to"), "Ingress": ("ingress", "from")}
"""Direction to the key of its rules, and of a rule's peers."""

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""Label that the API server itself puts on every namespace: nobody can claim another's."""

TIERS: Final = frozenset({"Admin", "Baseline"})

FIRST: Final = -1
"""Before every priority that can be said: what is asked there, and only maybe decides, leaves the others their word."""

ACTIONS: Final[Mapping[Any, Action]] = {"Accept": "Accept", "Deny": "Deny", "Pass": "Pass"}


@dataclass(frozen=True, eq=False)
class Policy:
    """One policy: the pods that it is for, and its rules for each direction that it judges."""

    name: str
    subject: Callable[[Pod], Match]
    rules: Mapping[Direction, tuple[Rule, ...]]
    tiers: frozenset[str] = frozenset()
    """Admin or Baseline, both where nobody knows which; none for a NetworkPolicy."""
    priority: int = 0


class Reader:
    """Reads policies; equal peers of many policies become one, so that each is asked once about each pod."""

    def __init__(self, objects: Sequence[Object]) -> None:
        spaces = [thing for thing in objects if thing.is_a("", "Namespace")]
        self._said: dict[str, Any] = {}
        for thing in spaces:
            said = thing.metadata["labels"].value
            self._said[thing.name] = _agreed(self._said[thing.name], said) if thing.name in self._said else said
        self._taken = Counter((thing.group, thing.kind, thing.identity) for thing in objects)
        self._labels = cache(self._labels_of)
        self._finders: dict[str, Callable[[Pod], Match]] = {}
        self._blocks: dict[str, Block | None] = {}

    def network_policy(self, thing: Object) -> Policy:
        """Read a NetworkPolicy."""
        home, spec, name = thing.home or NOWHERE, thing.root["spec"], f"{thing.home or NOWHERE}/{thing.name}"
        judged, most = _judged(spec)
        most = min(most, self._kept(thing))
        found = self._finder(home, None, spec["podSelector"])
        return Policy(
            name,
            cache(lambda pod: min(found(pod), most)),
            {direction: tuple(self._rules(name, home, spec, direction)) for direction in judged},
        )

    def cluster_policy(self, thing: Object) -> Policy:
        """Read a ClusterNetworkPolicy."""
        spec, tier, priority = (
            thing.root["spec"],
            thing.root["spec"]["tier"].value,
            thing.root["spec"]["priority"].value,
        )
        known = tier in TIERS and type(priority) is int
        find = self._cluster_finder(spec["subject"]) or (lambda _: Match.MAYBE)
        most = self._kept(thing) if known else Match.MAYBE
        return Policy(
            thing.name,
            lambda pod: min(find(pod), most),
            {direction: tuple(self._cluster_rules(thing.name, spec, direction)) for direction in SIDES},
            frozenset([tier]) if tier in TIERS else TIERS,
            priority if type(priority) is int else FIRST,
        )

    def foreign_policy(self, thing: Object) -> Policy:
        """Stand for a policy of a kind that nobody reads here: it may accept whatever there is."""
        rule = Rule(f"{thing.kind} {thing.name}, which is not read", None, None)
        return Policy(thing.name, lambda _: Match.MAYBE, dict.fromkeys(SIDES, (rule,)), TIERS, FIRST)

    def _kept(self, thing: Object) -> Match:
        """Say whether the cluster keeps an object: of twins, nobody knows which."""
        return Match.SURELY if self._taken[thing.group, thing.kind, thing.identity] == 1 else Match.MAYBE

    def _rules(self, policy: str, home: str, spec: Field, direction: Direction) -> Iterator[Rule]:
        rules, peers = SIDES[direction]
        for number, rule in enumerate(spec[rules].each(), 1):
            named = tuple(self._peer(peer, home) for peer in rule[peers].each())
            ports = tuple(_ports(port) for port in rule["ports"].each())
            yield Rule(f"{policy} {rules} rule {number}", named or None, ports or None)

    def _cluster_rules(self, policy: str, spec: Field, direction: Direction) -> Iterator[Rule]:
        rules, peers = SIDES[direction]
        for number, rule in enumerate(spec[rules].each(), 1):
            named = tuple(self._cluster_peer(peer) for peer in rule[peers].each())
            ports = tuple(_protocol(protocol) for protocol in rule["protocols"].each())
            action = ACTIONS.get(rule["action"].value, "Accept")
            yield Rule(f"{policy} {rules} rule {number}", named, ports or None, action)

    def _peer(self, peer: Field, home: str) -> Peer:
        spaces, pods, block = peer["namespaceSelector"], peer["podSelector"], peer["ipBlock"]
        given = [part for part in (spaces, pods) if part.value is not None]
        find = self._finder(home, spaces if spaces.value is not None else None, pods) if given else None
        held = self._block(block) if block.value is not None else None
        return Peer(find, (held,) if held else (), unreadable=not (given or held))

    def _cluster_peer(self, peer: Field) -> Peer:
        find = self._cluster_finder(peer)
        blocks = [self._block(Field({"cidr": cidr.value})) for cidr in peer["networks"].each()]
        held = tuple(block for block in blocks if block)
        return Peer(find, held, unreadable=len(held) < len(blocks) or not (find or held))

    def _cluster_finder(self, peer: Field) -> Callable[[Pod], Match] | None:
        """Read `namespaces` or `pods`, whose empty selectors find all; None where it is neither."""
        if peer["namespaces"].value is not None:
            return self._finder(NOWHERE, peer["namespaces"], Field(None))
        pods = peer["pods"]
        return None if pods.value is None else self._finder(NOWHERE, pods["namespaceSelector"], pods["podSelector"])

    def _finder(self, home: str, spaces: Field | None, pods: Field) -> Callable[[Pod], Match]:
        """Find *pods* of the namespaces *spaces*, or of *home* alone where no selector of namespaces is given."""
        key = json.dumps([home if spaces is None else spaces.value, pods.value, spaces is None], default=str)

        def find(pod: Pod) -> Match:
            there = _same(home, pod.namespace) if spaces is None else finds(spaces, self._labels(pod.namespace))
            found = min(there, finds(pods, pod.labels)) if there else there
            return min(found, Match.MAYBE) if pod.on_host else found

        return self._finders.setdefault(key, cache(find))

    def _block(self, block: Field) -> Block | None:
        """Read an ipBlock; an exception that nobody can read excepts nothing."""
        cidr, exceptions = _network(block["cidr"].value), [_network(one.value) for one in block["except"].each()]
        key = json.dumps(block.value, default=str)
        if key not in self._blocks:
            self._blocks[key] = Block(cidr, tuple(one for one in exceptions if one)) if cidr else None
        return self._blocks[key]

    def _labels_of(self, namespace: str) -> Field:
        """Give a namespace's labels; of one that is not among the objects the automatic one alone is known."""
        said = self._said.get(namespace, UNKNOWN)
        name = UNKNOWN if namespace == NOWHERE else namespace
        return (
            Field({**(said or {}), NAMESPACE_NAME: name})
            if isinstance(said, dict | None)
            else Partial({NAMESPACE_NAME: name})
        )


class Partial(Field):
    """A mapping of which only some keys are known; any other may be there."""

    @override
    def __getitem__(self, key: str) -> Field:
        found = super().__getitem__(key)
        return Field(UNKNOWN, self, key) if found.value is None else found


def _agreed(one: Any, other: Any) -> Any:
    """Give the labels of which twins say the same; what they disagree on is not known."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return one if one == other else UNKNOWN
    return {key: one.get(key) if one.get(key) == other.get(key) else UNKNOWN for key in {*one, *other}}


def _same(home: str, namespace: str) -> Match:
    if NOWHERE in (home, namespace):
        return Match.MAYBE
    return Match.SURELY if home == namespace else Match.NO


def _judged(spec: Field) -> tuple[list[Direction], Match]:
    """Say for which directions a NetworkPolicy is, as the API server fills it in, and how sure that is."""
    said = [kind.value for kind in spec["policyTypes"].each()]
    if UNKNOWN in said or (not said and spec["egress"].value is UNKNOWN):
        return [*SIDES], Match.MAYBE
    if not said:
        said = ["Ingress", *(["Egress"] if spec["egress"].value else [])]
    return [direction for direction in SIDES if direction in said], Match.SURELY


def _ports(entry: Field) -> Ports:
    port, last, protocol = entry["port"].value, entry["endPort"].value, entry["protocol"].value
    kind = "TCP" if protocol is None else protocol
    if not isinstance(kind, str) or UNKNOWN in (port, last, entry.value):
        return Ports(unreadable=True)
    if isinstance(port, str):
        return Ports(kind, name=port)
    return Ports(kind) if port is None else Ports(kind, port, port if last is None else last)


def _protocol(entry: Field) -> Ports:
    """Read an entry of a ClusterNetworkPolicy's `protocols`."""
    name = entry["destinationNamedPort"].value
    if isinstance(name, str):
        return Ports(name=name)
    kind = next((kind for kind in ("tcp", "udp", "sctp") if isinstance(entry[kind].value, dict)), None)
    port = entry[kind or ""]["destinationPort"]
    ends = [port["number"].value] * 2 if port["range"].value is None else [port.at("range", e).value for e in _ENDS]
    if kind is None or UNKNOWN in ends:
        return Ports(unreadable=True)
    return Ports(kind.upper()) if None in ends else Ports(kind.upper(), *ends)


_ENDS: Final = ("start", "end")


MAPPED: Final = IPv6Network("::ffff:0:0/96")


def _network(text: Any) -> Network | None:
    """Read a range; one of IPv4 within IPv6 is IPv4, as in Go, in which what reads policies is written."""
    try:
        found = ip_network(text, strict=False) if isinstance(text, str) else None
    except ValueError:
        return None
    if isinstance(found, IPv6Network) and found.subnet_of(MAPPED):
        return IPv4Network((int(found.network_address) & 0xFFFFFFFF, found.prefixlen - MAPPED.prefixlen))
    return found
