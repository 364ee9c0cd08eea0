"""What tenants may reach outside the cluster: what a stack file says of it, and what that comes to."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from typing_extensions import override

from components import ranges
from components.model import Cidr, Model, Network, Port
from policy.baseline import BLOCKED, METADATA, SEALED

MOST_RANGES = 1000
"""In one list: a thousand exceptions are 25 KB of IPv4; no site was seen with more."""

MOST_EXCEPTIONS = 15_000
"""In one policy, all its holes together: 0.7 MB at 43 characters for the longest; etcd takes objects of 1.5 MB."""

SHORTEST_REASON = 5
"""Less is no reason."""

MOST_ALLOWED = 50
"""Holes in one list: a longer one is another network, better reached through a proxy with one address."""


class PortRule(Model):
    """A port of a protocol; a bare number is TCP."""

    port: Port
    protocol: Literal["TCP", "UDP"] = "TCP"

    @override
    def __str__(self) -> str:
        return f"{self.protocol} {self.port}"


def _port(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"port": value}
    if not isinstance(value, Mapping | PortRule):
        msg = "must be a port number such as 443, or {port: 53, protocol: UDP}"
        raise ValueError(msg)  # noqa: TRY004 - pydantic takes this for a refusal, and a TypeError for a mistake of ours
    return value


EgressPort = Annotated[PortRule, BeforeValidator(_port)]


def _reason(value: str) -> str:
    said = value.strip()
    if len(said) < SHORTEST_REASON or not said.isprintable():
        msg = f"must say in at least {SHORTEST_REASON} readable characters, on one line, why the range is opened"
        raise ValueError(msg)
    return said


class AllowSpec(Model):
    """A hole in the walls: where to, on which ports, and why."""

    cidr: Cidr
    ports: Annotated[tuple[EgressPort, ...], Field(min_length=1)]
    reason: Annotated[str, Field(max_length=200), AfterValidator(_reason)]


class EgressSpec(Model):
    """What a stack or one of its tenants says of the way out."""

    blocked_cidrs: Annotated[tuple[Cidr, ...], Field(max_length=MOST_RANGES)] = ()
    allow: Annotated[tuple[AllowSpec, ...], Field(max_length=MOST_ALLOWED)] = ()
    internet_ports: tuple[EgressPort, ...] | None = None
    """None: every port; an empty list: no internet."""


@dataclass(frozen=True)
class Hole:
    """An allowed range less what stays closed in it."""

    block: ranges.Block
    ports: tuple[PortRule, ...]
    reason: str


@dataclass(frozen=True)
class Egress:
    """The way out of one tenant, resolved."""

    closed: tuple[str, ...] = ()
    """Ranges closed beside the built-in ones, as they were said: the cluster's own, and those that are blocked."""
    holes: tuple[Hole, ...] = ()
    internet_ports: tuple[PortRule, ...] | None = None

    @cached_property
    def site(self) -> tuple[str, ...]:
        """Give what is closed here, merged and sorted."""
        return ranges.texts(ranges.merged(self.closed))

    @cached_property
    def internet(self) -> tuple[ranges.Block, ...]:
        """Give every address that is neither blocked for all nor closed here; nothing where no port is open."""
        if self.internet_ports == ():
            return ()
        return ranges.everywhere_but((*BLOCKED, *self.site))

    @property
    def all_closed(self) -> list[Network]:
        """Give what is closed here and for all, merged."""
        return ranges.merged((*BLOCKED, *self.closed))

    @property
    def exceptions(self) -> int:
        """Count the exceptions that a policy has to name."""
        return sum(len(block.excepted) for block in (*self.internet, *(hole.block for hole in self.holes)))

    def of_tenant(self, said: EgressSpec) -> "Egress":
        """Narrow the stack's way out by a tenant's blocked ranges and ports, then add the tenant's own holes."""
        if said == EgressSpec():
            return self  # and with it what was computed already
        kept = (left for hole in self.holes if (left := _narrowed(hole, said.blocked_cidrs)))
        closed = (*self.closed, *said.blocked_cidrs)
        ports = self.internet_ports if said.internet_ports is None else said.internet_ports
        return Egress(closed, _joined((*kept, *_holes(said.allow, closed))), ports)


def of_stack(said: EgressSpec, cluster: Iterable[str]) -> Egress:
    """Give the stack's way out; *cluster* are the ranges of the cluster itself."""
    closed = (*cluster, *said.blocked_cidrs)
    return Egress(closed, _joined(_holes(said.allow, closed)), said.internet_ports)


def sealed(cidr: str) -> str | None:
    """Say in which range that no reason opens all of *cidr* lies, and why; None where it lies in none."""
    found = ranges.covering(cidr, SEALED)
    return f"{found} ({SEALED[found]})" if found else None


def left_of(cidr: str, closed: Iterable[str]) -> ranges.Block | None:
    """Give an allowed range less what is narrower and closed, here or for all: the narrower word counts."""
    return ranges.opened(cidr, (*METADATA, *BLOCKED, *closed))


def _holes(allowed: Iterable[AllowSpec], closed: Iterable[str]) -> Iterator[Hole]:
    walls = tuple(closed)
    for one in allowed:
        if block := left_of(one.cidr, walls):
            yield Hole(block, one.ports, one.reason)


def _joined(holes: Iterable[Hole]) -> tuple[Hole, ...]:
    """Make one of holes into the same range: a policy names its exceptions once, and every reason."""
    found: dict[ranges.Block, Hole] = {}
    for hole in holes:
        same = found.setdefault(hole.block, hole)
        if same is not hole:
            reasons = dict.fromkeys((*same.reason.split("; "), hole.reason))
            ports = tuple(dict.fromkeys((*same.ports, *hole.ports)))
            found[hole.block] = Hole(hole.block, ports, "; ".join(reasons))
    return tuple(found.values())


def _narrowed(hole: Hole, blocked: Iterable[str]) -> Hole | None:
    """Close *blocked* in a hole; None where nothing of it is left."""
    walls = tuple(blocked)
    if ranges.covering(hole.block.cidr, walls):
        return None
    block = ranges.opened(hole.block.cidr, (*hole.block.excepted, *walls))
    return replace(hole, block=block) if block else None
