"""Where a cluster keeps what a pod might try: known addresses, and nominal ones for what exists only after `up`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Final

from policy.ends import Address, Pod
from policy.rules import Network
from stacks.resolve import Stack
from stacks.schema import ClusterConfig

NOMINAL: Final[Mapping[str, tuple[str, str]]] = {
    "pods": ("10.244.0.0/16", "fd00:10:244::/56"),
    "services": ("10.96.0.0/16", "fd00:10:96::/112"),
    "nodes": ("192.168.49.0/24", "fd00:192:168::/64"),
}
"""Ranges of each family that stand for those that a stack file does not name: what distributions often take."""

FIRST_POD, FIRST_SERVICE, DNS_SERVICE, API_SERVICE, FIRST_NODE = 20, 100, 10, 1, 2
"""Where in its range each kind of address begins; `kubernetes` is always the first Service, DNS by custom the tenth."""

DNS_POD: Final = 3
"""Where in the pods' range the first DNS pod is said to be."""

Addresses = tuple[Address, ...]


@dataclass(frozen=True)
class Site:
    """Addresses of a cluster, at most one of each family for one thing."""

    pod: Callable[[Pod], Addresses]
    service: Callable[[str], Addresses]
    """By `namespace/name`."""
    dns: Addresses
    """Of a pod of cluster DNS."""
    dns_service: Addresses
    api_service: Addresses
    nodes: Addresses


def nominal(stack: Stack, pods: Sequence[Pod], services: Sequence[str]) -> Site:
    """Give addresses to everything of *stack* from its own ranges, in order."""
    cluster = stack.config.cluster
    inside = {kind: tuple(_ranges(cluster, kind)) for kind in NOMINAL}
    of_pod = {pod.name: _at(inside["pods"], FIRST_POD + place) for place, pod in enumerate(pods)}
    of_service = {name: _at(inside["services"], FIRST_SERVICE + place) for place, name in enumerate(services)}
    return Site(
        pod=lambda pod: of_pod[pod.name],
        service=lambda name: of_service[name],
        dns=_at(inside["pods"], DNS_POD),
        dns_service=_at(inside["services"], DNS_SERVICE),
        api_service=_at(inside["services"], API_SERVICE),
        nodes=_at(inside["nodes"], FIRST_NODE),
    )


def _ranges(cluster: ClusterConfig, kind: str) -> Iterator[Network]:
    """Give one range of *kind* for each family: the first that the stack names, else the nominal one."""
    said = {"pods": cluster.pod_cidrs, "services": cluster.service_cidrs, "nodes": cluster.node_cidrs}[kind]
    for version, cidr in zip((4, 6), NOMINAL[kind], strict=True):
        named = (network for one in said if (network := ip_network(one)).version == version)
        yield next(named, ip_network(cidr))


def _at(ranges: Iterable[Network], place: int) -> Addresses:
    return tuple(network[min(place, network.num_addresses - 1)] for network in ranges)
