"""What tenants may reach outside the cluster: what a stack file says of it, and what that comes to."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from typing_extensions import override

from components import ranges
from components.model import Cidr, Model, Port
from policy.baseline import BLOCKED_V4, BLOCKED_V6, METADATA, PRIVATE

MOST_RANGES = 1000
"""In one list: a policy with a thousand exceptions has 25 KB, far below what etcd takes."""

MOST_ALLOWED = 50
"""Holes in one list: a longer one is another network, better reached through a proxy with one address."""

BUILT_IN = {**BLOCKED_V4, **BLOCKED_V6}
"""Ranges of both families that are closed whatever a stack file says -> why."""

METADATA_SERVICES = {cidr: f"metadata service, {whose}" for cidr, whose in METADATA.items()}

SEALED = METADATA_SERVICES | {c: why for c, why in BUILT_IN.items() if c not in {*PRIVATE, *METADATA_SERVICES}}
"""Ranges that no reason opens: metadata services, the node itself, IPv4 inside IPv6, what is no host's -> why."""


class PortRule(Model):
    """A port of a protocol; a bare number is TCP."""

    port: Port
    protocol: Literal["TCP", "UDP"] = "TCP"

    @override
    def __str__(self) -> str:
        return f"{self.protocol} {self.port}"


def _port(value: object) -> object:
    return {"port": value} if isinstance(value, int) and not isinstance(value, bool) else value


EgressPort = Annotated[PortRule, BeforeValidator(_port)]


class AllowSpec(Model):
    """A hole in the walls: where to, on which ports, and why."""

    cidr: Cidr
    ports: Annotated[tuple[EgressPort, ...], Field(min_length=1)]
    reason: Annotated[str, Field(min_length=5, max_length=200)]


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

    site: tuple[str, ...] = ()
    """Ranges closed beside the built-in ones: the cluster's own, and those that the stack file names."""
    holes: tuple[Hole, ...] = ()
    internet_ports: tuple[PortRule, ...] | None = None

    @cached_property
    def internet(self) -> tuple[ranges.Block, ...]:
        """Give every address that is neither blocked for all nor closed here; nothing where no port is open."""
        if self.internet_ports == ():
            return ()
        return ranges.everywhere_but((*BUILT_IN, *self.site))

    def of_tenant(self, said: EgressSpec, cluster: Iterable[str]) -> "Egress":
        """Narrow the stack's way out by a tenant's blocked ranges and ports, then add the tenant's own holes.

        *cluster* are the ranges of the cluster itself, which no hole opens.
        """
        if said == EgressSpec():
            return self  # and with it what was computed already
        kept = tuple(left for hole in self.holes if (left := _narrowed(hole, said.blocked_cidrs)))
        site = ranges.texts(ranges.merged((*self.site, *said.blocked_cidrs)))
        ports = self.internet_ports if said.internet_ports is None else said.internet_ports
        return replace(self, site=site, holes=(*kept, *_holes(said, (*self.site, *cluster))), internet_ports=ports)


def of_stack(said: EgressSpec, cluster: Iterable[str], internal: Iterable[str]) -> Egress:
    """Give the stack's way out: *cluster* are all its ranges, *internal* those of them that no hole opens."""
    site = ranges.texts(ranges.merged((*cluster, *said.blocked_cidrs)))
    return Egress(site, tuple(_holes(said, internal)), said.internet_ports)


def _holes(said: EgressSpec, closed: Iterable[str]) -> Iterable[Hole]:
    """Open what is allowed, less what is narrower and closed: the narrower word counts."""
    walls = (*SEALED, *closed, *said.blocked_cidrs)
    return tuple(Hole(ranges.opened(one.cidr, walls), one.ports, one.reason) for one in said.allow)


def _narrowed(hole: Hole, blocked: Iterable[str]) -> Hole | None:
    """Close *blocked* in a hole; None where nothing of it is left."""
    walls = tuple(blocked)
    if ranges.covering(hole.block.cidr, walls):
        return None
    return replace(hole, block=ranges.opened(hole.block.cidr, (*hole.block.excepted, *walls)))
