"""Who may open a connection to whom: computed from manifests alone, whoever made them.

NetworkPolicies add up: a connection passes when a rule of the source's egress policies and one of the target's ingress
policies name it, or none holds that side. ClusterNetworkPolicies are asked in their order, before and after them. What
cannot be decided before the deployment counts as open, and so does whatever a policy of a foreign kind might accept.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from ipaddress import IPv6Address, ip_network
from itertools import groupby
from typing import Any, Final, NamedTuple

from policy.baseline import BLOCKED
from policy.ends import Address, End, Pod, pods
from policy.foreign import is_cluster_policy, is_foreign
from policy.network_policies import Direction, Policy, Reader
from policy.objects import objects
from policy.plain import plain
from policy.rules import Match, Point, Rule

NAMED: Final = 4
"""A reason names this many policies: a tenant's units bring hundreds."""


class Side(NamedTuple):
    """What the policies of one end say; *say* gives the reason."""

    open: bool
    say: Callable[[], str]


def _opened(why: str = "") -> Side:
    return Side(open=True, say=lambda: why)


def _shut(why: Callable[[], str]) -> Side:
    return Side(open=False, say=why)


class Verdict:
    """Whether a connection may be opened, and why; the target's side is judged when it matters."""

    def __init__(self, egress: Side, ingress: Callable[[], Side]) -> None:
        self._egress = egress
        self._ingress = ingress

    @property
    def open(self) -> bool:
        """Say whether both ends let it pass."""
        return self._egress.open and self._ingress().open

    @property
    def why(self) -> str:
        """Name the rules that open it, or each end that is closed and by what."""
        sides = (("egress", self._egress), ("ingress", self._ingress()))
        return "; ".join(f"{name} {said}" for name, side in sides if side.open == self.open and (said := side.say()))


class _Question(NamedTuple):
    """One side of one connection: whether *subject*, by its policies for *direction*, may deal with *peer*."""

    direction: Direction
    subject: Pod
    peer: Point
    target: Pod | None
    port: int
    protocol: str

    def matches(self, rule: Rule) -> Match:
        return rule.match(self.peer, self.target, self.port, self.protocol)


class _Holding(NamedTuple):
    """The NetworkPolicies that are, surely or maybe, for a pod in a direction."""

    policies: list[Policy]
    ruling: Mapping[Policy, Match]
    """Those with rules that might open something."""
    surely: bool
    """One of them holds the pod for sure: what no rule opens is closed."""


class Reach:
    """The network policies of a set of manifests, ready to be asked.

    *manifests* are plain data; *ranges* says what is at which CIDR, beside the built-in lists, for the reasons.
    """

    def __init__(self, manifests: Iterable[Any], ranges: Mapping[str, str] | None = None) -> None:
        things = [thing for manifest in manifests for thing in objects(plain(manifest))]
        reader = Reader(things)
        self.pods = pods(things)
        """The pods of the manifests, without addresses; `dataclasses.replace` gives them some."""
        read = [thing for thing in things if not is_foreign(thing)]
        self._policies = [reader.network_policy(t) for t in read if t.is_a("networking.k8s.io", "NetworkPolicy")]
        clustered = [reader.cluster_policy(thing) for thing in read if is_cluster_policy(thing)]
        clustered += [reader.foreign_policy(thing) for thing in things if is_foreign(thing)]
        self._clustered = sorted(clustered, key=lambda policy: policy.priority)
        said = {**BLOCKED, **(ranges or {})}
        self._ranges = sorted(((ip_network(c), why) for c, why in said.items()), key=lambda r: -r[0].prefixlen)
        self._holding = cache(self._holding_of)
        self._naming = cache(self._naming_of)

    def verdict(
        self,
        source: End,
        target: End,
        port: int,
        protocol: str = "TCP",
        *,
        version: int = 4,
        seen: tuple[Address, int] | None = None,
    ) -> Verdict:
        """Judge a new connection from *source* to *port* of *target*; between pods by their addresses of *version*.

        *seen* is the address and port of a Service at which the source's side is judged, where that comes before the
        Service's address is turned into the pod's.
        """
        source, target = _plain(source), _plain(target)
        if source is target:
            return Verdict(_opened("is not asked: a pod always reaches itself"), _opened)
        version = next((end.version for end in (target, source) if not isinstance(end, Pod)), version)
        here, there = _point(source, version), _point(target, version)
        facing = (Point(None, seen[0]), None, seen[1]) if seen else (there, there.pod, port)
        leaves = _Question("Egress", here.pod, *facing, protocol) if here.pod else None
        enters = _Question("Ingress", there.pod, here, there.pod, port, protocol) if there.pod else None
        return Verdict(self._side(leaves), lambda: self._side(enters))

    def reason(self, address: Address) -> str | None:
        """Say what is at *address*: the narrowest known range that it is in."""
        found = ((network, why) for network, why in self._ranges if address in network)
        return next((f"{network}: {why}" for network, why in found), None)

    def _side(self, question: _Question | None) -> Side:
        if question is None:
            return _opened()
        if question.subject.on_host:
            return _opened("is open: the pod is on the node's own network, where no policy holds it")
        outcomes = self._outcomes("Admin", question) if self._clustered else [("Pass", "")]
        for action, name in outcomes:
            if action == "Accept":
                return _opened(f"by {name}")
        if "Pass" not in dict(outcomes):
            return _shut(lambda: f"is closed by {outcomes[0][1]}")
        return self._by_network_policies(question)

    def _by_network_policies(self, question: _Question) -> Side:
        holding = self._holding(question.subject, question.direction)
        naming = self._naming(question.direction, question.peer)
        few, other = sorted((holding.ruling, naming), key=len)  # one of them may be hundreds
        for policy in few:
            for rule in naming[policy] if policy in other else ():
                if rule.match_port(question.target, question.port, question.protocol):
                    return _opened(f"by {rule.name}")
        return _shut(lambda: self._closed(question)) if holding.surely else self._by_baseline(question)

    def _by_baseline(self, question: _Question) -> Side:
        outcomes = self._outcomes("Baseline", question)
        if {action for action, _ in outcomes} == {"Deny"}:
            return _shut(lambda: f"is closed by {outcomes[0][1]}")
        return _opened(f"is open: no policy holds {question.subject.name}")

    def _naming_of(self, direction: Direction, peer: Point) -> dict[Policy, list[Rule]]:
        """Return the NetworkPolicies with rules that, surely or maybe, name *peer*, and these rules."""
        rules = (
            (policy, [rule for rule in policy.rules.get(direction, ()) if rule.match_peer(peer)])
            for policy in self._policies
        )
        return {policy: named for policy, named in rules if named}

    def _holding_of(self, pod: Pod, direction: Direction) -> _Holding:
        judging = (policy for policy in self._policies if direction in policy.rules)
        found = {policy: match for policy in judging if (match := policy.subject(pod))}
        ruling = {policy: match for policy, match in found.items() if policy.rules[direction]}
        return _Holding(list(found), ruling, Match.SURELY in found.values())

    def _outcomes(self, tier: str, question: _Question) -> list[tuple[str, str]]:
        """Return what a tier may decide, as (action, rule): more than one where that depends on what nobody knows."""
        found: list[tuple[str, str]] = []
        mine = (policy for policy in self._clustered if tier in policy.tiers)
        for _, equals in groupby(mine, key=lambda policy: policy.priority):
            # among equal priorities an implementation may pick any
            decisions = [decision for policy in equals for decision in _decisions(policy, question)]
            found += [(rule.action, rule.name) for _, rule in decisions]
            if any(match is Match.SURELY for match, _ in decisions):
                return found
        return [*found, ("Pass", "")]

    def _closed(self, question: _Question) -> str:
        """Say what closes a side: the rule that comes nearest to opening it, else the policies that hold the pod."""
        policies = self._holding(question.subject, question.direction).policies
        rules = [rule for policy in policies for rule in policy.rules[question.direction]]
        names, more = [policy.name for policy in policies[:NAMED]], len(policies) - NAMED
        listed = ", ".join([*names, f"{more} more"] if more > 0 else names)
        return next(self._near(question, rules), f"is closed by {listed}")

    def _near(self, question: _Question, rules: list[Rule]) -> Iterator[str]:
        address = question.peer.address
        for rule in rules:
            if address and (network := rule.exception(address)):
                yield f"is closed: {rule.name} excepts {self.reason(address) or network}"
        for rule in rules:
            if rule.ports is not None and rule.match_peer(question.peer):
                yield f"is closed: {rule.name} opens {', '.join(map(str, rule.ports))} alone"


def _decisions(policy: Policy, question: _Question) -> Iterator[tuple[Match, Rule]]:
    """Yield the rules of a ClusterNetworkPolicy that may be the first to match, down to the first that surely does."""
    subject = policy.subject(question.subject)
    for rule in policy.rules[question.direction]:
        if match := min(subject, question.matches(rule)):
            yield match, rule
            if match is Match.SURELY:
                return


def _plain(end: End) -> End:
    """Give IPv4 in IPv6's clothes as what it is: packets to it are IPv4."""
    return end.ipv4_mapped or end if isinstance(end, IPv6Address) else end


def _point(end: End, version: int) -> Point:
    return Point(end, end.address(version)) if isinstance(end, Pod) else Point(None, end)
