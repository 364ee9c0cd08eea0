"""Addresses of a rig: one free private /16 each, and an IPv6 /48 where the kernel knows IPv6.

Both are cut into pods, Services and the node. The host reaches the rig by IPv4 alone.
"""

import ipaddress
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import Any

from tools.rig.errors import RigError

POOLS = ("10.128.0.0/9", "172.16.0.0/12", "100.64.0.0/10")
"""Private ranges only: the walls of a stack then treat a rig like any private network. A VPN often takes one whole."""

ULA = "fd67:7075::/32"
"""Where IPv6 blocks come from: unique local addresses, private like POOLS. The third group is the IPv4 block's."""

KNOWS_IPV6 = Path("/proc/sys/net/ipv6")
"""Missing where the kernel has no IPv6 at all."""

Range = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Network:
    """Addresses of one rig, all cut from `block`, a /16, and from `block6`, a /48; without `ipv6` it is None."""

    block: IPv4Network
    ipv6: bool = False

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Return every range that pods, Services and nodes have, of both families, IPv4 first."""
        found = (self.pods, self.services, self.nodes, self.pods6, self.services6, self.nodes6)
        return tuple(one for one in found if one is not None)

    @property
    def blocks(self) -> tuple[Range, ...]:
        """Return what all ranges are cut from."""
        return (self.block,) if self.block6 is None else (self.block, self.block6)

    @property
    def block6(self) -> IPv6Network | None:
        """Return the /48 that goes with `block`, so that rigs that share one share none of the other."""
        if not self.ipv6:
            return None
        number = int(self.block.network_address) >> 16
        return IPv6Network((int(IPv6Network(ULA).network_address) | number << 80, 48))

    @property
    def pods6(self) -> IPv6Network | None:
        """Return the IPv6 addresses of pods."""
        return self._part6(0, 64)

    @property
    def services6(self) -> IPv6Network | None:
        """Return the IPv6 addresses of Services; Kubernetes takes no range wider than a /108."""
        return self._part6(1, 112)

    @property
    def nodes6(self) -> IPv6Network | None:
        """Return the range of the node's IPv6 address, which nobody but its pods can reach."""
        return self._part6(2, 126)

    @property
    def node_ip6(self) -> IPv6Address | None:
        """Return the node's IPv6 address."""
        return None if self.nodes6 is None else self.nodes6[2]

    def _part6(self, number: int, length: int) -> IPv6Network | None:
        if self.block6 is None:
            return None
        return IPv6Network((int(self.block6.network_address) | number << 64, length))

    @property
    def pods(self) -> IPv4Network:
        """Return the addresses of pods: 4094, more than the kubelet's limit needs after quick restarts."""
        return IPv4Network((self.block.network_address, 20))

    @property
    def services(self) -> IPv4Network:
        """Return the addresses of Services."""
        return IPv4Network((self.block.network_address + 0x8000, 20))

    @property
    def nodes(self) -> IPv4Network:
        """Return the link between host and node: two usable addresses."""
        return IPv4Network((self.block.broadcast_address - 3, 30))

    @property
    def host_ip(self) -> IPv4Address:
        """Return the host's address on the link."""
        return self.nodes[1]

    @property
    def node_ip(self) -> IPv4Address:
        """Return the node's address, where the host reaches the API server and node ports."""
        return self.nodes[2]

    @property
    def api_ip(self) -> IPv4Address:
        """Return the address of the Service `kubernetes`: always the first."""
        return self.services[1]

    @property
    def dns_ip(self) -> IPv4Address:
        """Return the address of the Service `kube-dns`."""
        return self.services[10]


def free_network(taken: Iterable[Range], *, ipv6: bool = False) -> Network:
    """Return the first blocks of the pools that overlap nothing taken, or raise RigError."""
    used = tuple(taken)
    for pool in POOLS:
        for block in IPv4Network(pool).subnets(new_prefix=16):
            network = Network(block, ipv6)
            if not any(overlap(one, other) for one in network.blocks for other in used):
                return network
    raise RigError(f"no /16 of {', '.join(POOLS)} is free of this host's routes and of other rigs; remove one of them")


def overlap(one: Range, other: Range) -> bool:
    """Tell whether two ranges share an address."""
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.overlaps(other)
    return isinstance(other, IPv6Network) and one.overlaps(other)


def host_networks() -> list[Range]:
    """Return what the host routes or owns already, default routes left out."""
    found = [*_networks(4)]
    return [*found, *_networks(6)] if KNOWS_IPV6.exists() else found


def _networks(version: int) -> Iterator[Range]:
    for route in _ip_json(version, "route", "show", "table", "all"):
        if route["dst"] != "default":
            yield ipaddress.ip_network(route["dst"], strict=False)
    family = "inet" if version == 4 else "inet6"  # noqa: PLR2004  # IP's own number
    for link in _ip_json(version, "address", "show"):
        yield from (ipaddress.ip_network(one["local"]) for one in link.get("addr_info", ()) if one["family"] == family)


def _ip_json(version: int, *argv: str) -> list[dict[str, Any]]:
    done = subprocess.run(["ip", f"-{version}", "-json", *argv], check=True, capture_output=True, text=True)
    found: list[dict[str, Any]] = json.loads(done.stdout or "[]")
    return found
