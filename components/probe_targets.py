"""What the probe tries: the forbidden list, and what proves that there is a network at all."""

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from components import names, ranges
from components.gate import HOST
from components.model import Manifest, Network
from components.tunnel import ENTRANCE, FrpSpec
from policy.baseline import BLOCKED, METADATA

WEB, TLS = 80, 443

OTHERS = 3
"""Services of tenants to try: an enforced wall is the same for all, and each is one more name to resolve."""


def closed(name: str, host: str, port: int, why: str, *, optional: bool = False) -> Manifest:
    """Give a target that must not answer; *optional* when the name of its host may not exist yet."""
    target = {"name": name, "host": host, "port": port, "protocol": "TCP", "expect": "closed", "why": why}
    return {**target, "optional": True} if optional else target


@dataclass(frozen=True)
class Surroundings:
    """What of a stack the targets depend on."""

    tunnel: FrpSpec | None
    """None: the tunnel servers are elsewhere."""
    api_servers: tuple[str, ...]
    """Ranges of API servers; those of a single address are tried."""
    api_ports: tuple[int, ...]
    """Where they answer."""
    holes: tuple[str, ...]
    """Ranges that every tenant may reach in part: nothing in them is tried."""
    services: tuple[tuple[str, str, int], ...]
    """Alias, host and port of tenants' Services; the first few are tried."""


def targets(around: Surroundings) -> list[Manifest]:
    """List what to try: what a tenant reaches first, then what it must not, the likeliest to answer first."""
    return [*_names(), *_cluster(around), *_metadata(), *_blocked(around.holes)]


def _names() -> Iterator[Manifest]:
    for protocol in ("UDP", "TCP"):
        name, why = f"cluster DNS, {protocol}", "permitted: proves that there is a network"
        base = {"name": name, "host": "$NAMESERVERS", "port": names.DNS_PORT, "protocol": protocol}
        yield {**base, "expect": "open", "why": why}


def _cluster(around: Surroundings) -> Iterator[Manifest]:
    yield closed("API server", "$KUBERNETES_SERVICE_HOST", TLS, "its Service; no tenant talks to it")
    for cidr, port in product(around.api_servers, around.api_ports):
        if address := _single(cidr):
            yield closed(f"API server, {address}:{port}", address, port, "its own address")
    yield closed("kubelet", "$NODE_IP", names.KUBELET_PORT, "of this node: runs commands in pods")
    if around.tunnel is not None:
        yield from _tier(around.tunnel)
    for alias, host, port in around.services[:OTHERS]:
        yield closed(f"unit {alias}", host, port, "a tenant's Service", optional=True)


def _tier(tunnel: FrpSpec) -> Iterator[Manifest]:
    yield closed("gate", HOST, names.GATE_PORT, "admits tunnels; tunnel servers alone ask it")
    name, host, port = tunnel.servers[0]
    yield closed(name, host, port, "tunnel server; units alone announce themselves")
    entrance = names.service_host(ENTRANCE, names.PLATFORM_NAMESPACE)
    yield closed("entrance", entrance, names.CONNECT_PORT, "SSH to every tenant's units")
    if (node_port := tunnel.service.node_port) is not None:
        yield closed("node port of the entrance", "$NODE_IP", node_port, "the same by way of the node")


def _metadata() -> Iterator[Manifest]:
    for cidr, cloud in METADATA.items():
        address = cidr.partition("/")[0]
        yield closed(f"metadata {address}", address, WEB, f"hands out the node's credentials: {cloud}")


def _blocked(holes: tuple[str, ...]) -> Iterator[Manifest]:
    """Give an address of each range that a pod's packets could be for; a metadata address stands for its own range."""
    for cidr, why in BLOCKED.items():
        network = ipaddress.ip_network(cidr)
        inner = network.is_loopback or network.is_unspecified or network.is_multicast
        scoped = isinstance(network, ipaddress.IPv6Network) and network.is_link_local
        if inner or scoped or any(ranges.within(known, cidr) for known in METADATA):
            continue
        if (address := _outside(network, holes)) and not ipaddress.ip_address(address).is_loopback:
            yield closed(f"range {cidr}", address, TLS, why.partition(":")[0])


def _outside(network: Network, holes: Iterable[str]) -> str | None:
    """Give an address of *network* that is in none of the *holes*, or None."""
    opened = [ipaddress.ip_network(hole) for hole in holes]
    beyond = (hole.broadcast_address for hole in opened if ranges.within(hole, network))
    tried = (network[1], *(last + 1 for last in beyond if last != network.broadcast_address))
    return next((str(one) for one in tried if one in network and not any(one in hole for hole in opened)), None)


def _single(cidr: str) -> str | None:
    """Give the address of a range that has but one."""
    network = ipaddress.ip_network(cidr)
    return str(network[0]) if network.num_addresses == 1 else None
