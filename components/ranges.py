"""Arithmetic on address ranges: what is merged, what lies in what, and which holes a range needs."""

import ipaddress
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from components.model import Network

EVERYWHERE = ("0.0.0.0/0", "::/0")
"""All addresses, one range for each family."""


PARTS = tuple(map(ipaddress.ip_network, ("0.0.0.0/1", "128.0.0.0/1", "2000::/3", "fd00::/8")))
"""What kube-router (2.1) makes of 0.0.0.0/0 and ::/0: an exception that is no narrower than one of these is lost."""


class Block(NamedTuple):
    """A range less some others, all strictly inside it: what a NetworkPolicy calls an ipBlock."""

    cidr: str
    excepted: tuple[str, ...] = ()


def merged(cidrs: Iterable[str]) -> list[Network]:
    """Give the same addresses as *cidrs* in as few ranges as can be: sorted, without overlap, IPv4 before IPv6."""
    networks = [ipaddress.ip_network(cidr) for cidr in cidrs]
    v4 = ipaddress.collapse_addresses(n for n in networks if isinstance(n, ipaddress.IPv4Network))
    v6 = ipaddress.collapse_addresses(n for n in networks if isinstance(n, ipaddress.IPv6Network))
    return [*v4, *v6]


def order(network: Network) -> tuple[int, int, int]:
    """Sort ranges by family, address and size, so that what holds others comes right before them."""
    return network.version, int(network.network_address), network.prefixlen


def texts(networks: Iterable[Network]) -> tuple[str, ...]:
    """Write ranges as people do."""
    return tuple(str(network) for network in networks)


@cache
def _network(cidr: str | Network) -> Network:
    return ipaddress.ip_network(cidr)


def within(inner: str | Network, outer: str | Network) -> bool:
    """Say whether every address of *inner* is one of *outer*."""
    a, b = _network(inner), _network(outer)
    return a.version == b.version and a.subnet_of(b)  # type: ignore[arg-type]  # the versions agree


def covering(cidr: str, ranges: Iterable[str]) -> str | None:
    """Give the first of *ranges* that holds all of *cidr*, or None."""
    return next((one for one in ranges if within(cidr, one)), None)


def everywhere_but(closed: Iterable[str]) -> tuple[Block, ...]:
    """Give all addresses of both families less *closed*."""
    walls = [narrow for wall in merged(closed) for narrow in _narrower(wall)]
    return tuple(
        Block(whole, texts(n for n in walls if n.version == version))
        for whole, version in zip(EVERYWHERE, (4, 6), strict=True)
    )


def _narrower(network: Network) -> list[Network]:
    """Give *network* in ranges that are each narrower than the part of everywhere that they lie in."""
    for part in PARTS:
        if within(part, network):
            rest = [] if part == network else list(network.address_exclude(part))  # type: ignore[arg-type]
            return sorted((n for piece in (*rest, *part.subnets()) for n in _narrower(piece)), key=order)
    return [network]


def opened(cidr: str, closed: Iterable[str]) -> Block | None:
    """Give *cidr* less what of *closed* lies strictly inside it; what holds it, or is it, does not count.

    None where nothing of it is left. *closed* is taken as said: merged, a narrow range vanishes in a wide one.
    """
    inside = texts(merged(one for one in closed if one != cidr and within(one, cidr)))
    return None if inside == (cidr,) else Block(cidr, inside)


def host(address: str) -> str:
    """Give the range of one address."""
    return str(ipaddress.ip_network(address))
