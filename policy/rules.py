"""What a rule of a network policy matches: one peer, one port, one rule, whatever kind of policy says it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Literal, NamedTuple

from typing_extensions import override

from policy.ends import Address, Pod
from policy.field import Field
from policy.plain import UNKNOWN
from policy.selection import RUNTIME_LABELS, selects

Network = IPv4Network | IPv6Network
Action = Literal["Accept", "Deny", "Pass"]


class Match(IntEnum):
    """Whether something matches; MAYBE is what nobody can decide before the deployment. `and` is min, `or` is max."""

    NO = 0
    MAYBE = 1
    SURELY = 2


class Point(NamedTuple):
    """One end of one connection: a pod, an address, or a pod at an address."""

    pod: Pod | None
    address: Address | None


def finds(selector: Field, labels: Field) -> Match:
    """Say whether *selector* finds what carries *labels*."""
    if selects(selector, labels):
        return Match.SURELY
    return Match.MAYBE if all(_may_hold(demand, labels) for demand in _demands(selector)) else Match.NO


class _Demand(NamedTuple):
    key: Any
    said: list[Any]
    selector: Field


def _demands(selector: Field) -> Iterator[_Demand]:
    for key, wanted in selector["matchLabels"].pairs():
        yield _Demand(key, [wanted.value], Field({"matchLabels": {key: wanted.value}}))
    for expression in selector["matchExpressions"].each():
        said = [expression["operator"].value, *(value.value for value in expression["values"].each())]
        yield _Demand(expression["key"].value, said, Field({"matchExpressions": [expression.value]}))


def _may_hold(demand: _Demand, labels: Field) -> bool:
    label = labels[demand.key].value if isinstance(demand.key, str) else UNKNOWN
    if UNKNOWN in (label, *demand.said) or (label is None and demand.key in RUNTIME_LABELS):
        return True
    return selects(demand.selector, labels)


class Block:
    """Addresses of a CIDR less its exceptions, asked once for each address."""

    def __init__(self, cidr: Network, exceptions: tuple[Network, ...]) -> None:
        self.cidr = cidr
        self._exceptions = exceptions
        self.exception = cache(self._exception)
        self.holds = cache(self._holds)

    def _holds(self, address: Address) -> bool:
        return address in self.cidr and self.exception(address) is None

    def _exception(self, address: Address) -> Network | None:
        """Return the exception that takes *address* out."""
        return next((network for network in self._exceptions if address in network), None)


@dataclass(frozen=True, eq=False)
class Peer:
    """One entry of `from` or `to`."""

    find: Callable[[Pod], Match] | None = None
    """The pods that selectors find."""
    blocks: tuple[Block, ...] = ()
    unreadable: bool = False
    """Part of it is not known before the deployment: it may be anything."""

    def match(self, point: Point) -> Match:
        """Say whether the peer names *point*; a block holds a pod's address too, as it does for many a CNI."""
        if point.address and any(block.holds(point.address) for block in self.blocks):
            return Match.SURELY
        found = self.find(point.pod) if self.find and point.pod else Match.NO
        unplaced = point.pod is not None and not (point.address or point.pod.addresses)
        return max(found, Match.MAYBE if self.unreadable or (self.blocks and unplaced) else Match.NO)


@dataclass(frozen=True)
class Ports:
    """One entry of `ports` or `protocols`; None stands for any."""

    protocol: str | None = None
    low: int = 0
    high: int = 65535
    name: str | None = None
    unreadable: bool = False

    def match(self, pod: Pod | None, port: int, protocol: str) -> Match:
        """Say whether the entry names *port* of the target, whose *pod* knows what its named ports are."""
        if self.unreadable:
            return Match.MAYBE
        if self.protocol not in (None, protocol):
            return Match.NO
        here = self._named(pod, port, protocol) if self.name else self.low <= port <= self.high
        return Match.SURELY if here else Match.NO

    def _named(self, pod: Pod | None, port: int, protocol: str) -> bool:
        return pod is not None and (self.name, protocol, port) in pod.ports

    @override
    def __str__(self) -> str:
        if self.unreadable:
            return "a port that is not known"
        numbers = str(self.low) if self.low == self.high else f"{self.low}-{self.high}"
        return " ".join(filter(None, (self.protocol, self.name or ("" if numbers == "0-65535" else numbers))))


@dataclass(frozen=True, eq=False)
class Rule:
    """One entry of `ingress` or `egress`; None of peers or ports: all of them."""

    name: str
    peers: tuple[Peer, ...] | None
    ports: tuple[Ports, ...] | None
    action: Action = "Accept"

    def match(self, peer: Point, target: Pod | None, port: int, protocol: str) -> Match:
        """Say whether the rule is for a connection to *port* of *target* with *peer* at the rule's other end."""
        return min(self.match_peer(peer), self.match_port(target, port, protocol))

    def match_peer(self, point: Point) -> Match:
        """Say whether the rule names *point*."""
        if self.peers is None:
            return Match.SURELY
        return max((peer.match(point) for peer in self.peers), default=Match.NO)

    def match_port(self, target: Pod | None, port: int, protocol: str) -> Match:
        """Say whether the rule names *port*."""
        if self.ports is None:
            return Match.SURELY
        return max((ports.match(target, port, protocol) for ports in self.ports), default=Match.NO)

    def exception(self, address: Address) -> Network | None:
        """Return the exception that keeps *address* out of a range that the rule names."""
        blocks = (block for peer in self.peers or () for block in peer.blocks if address in block.cidr)
        return next((found for block in blocks if (found := block.exception(address))), None)
