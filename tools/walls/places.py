"""Everything that a pod might try to reach: what the matrix, the tests on the rig and the documentation all look at."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any, Final, NamedTuple

from components import names
from policy.baseline import BLOCKED, METADATA
from policy.ends import Address, End, Pod
from policy.rules import Network
from stacks.resolve import Stack
from tools.walls.site import Addresses, Site

TCP, UDP = "TCP", "UDP"

UNLISTED: Final[Mapping[str, tuple[int, ...]]] = {"unit": (names.SSHD_PORT,), "frps": (7500,)}
"""Ports beside those that a container names: sshd in a unit, and where frps would have its dashboard."""

OTHER_PORT: Final = 9
"""A port that nothing listens on (discard): closed walls are closed for it too."""

DNS_METRICS, API_PORT, API_SERVICE_PORT = 9153, 6443, 443

WEB: Final = ((TCP, 443), (UDP, 443))
"""What is tried of a whole range: a policy without ports is the same for all of them."""

INTERNET: Final = ((TCP, 22), (TCP, 25), (TCP, 80), (TCP, 443), (UDP, 53), (UDP, 443))
"""Of the internet: what allow-lists of ports name or leave out most."""

HOSTS: Final = ("44.12.34.56", "52.12.34.56", "2600:1f18:4a5b::7", "2a05:d018:4a5b::7")
"""Public addresses; of each family the first that the stack does not close stands for the internet."""

NODE_PORT: Final = "node port of"

Ports = Sequence[tuple[str, int]]


class Way(NamedTuple):
    """One way in which a network plugin may judge a connection."""

    end: End
    port: int
    seen: tuple[Address, int] | None = None
    """A Service's address and port, where the source's side is judged before these are turned into the pod's."""


@dataclass(frozen=True)
class Place:
    """One address and port that a pod may try; it counts as open when any way to it is."""

    group: str
    name: str
    address: Address
    protocol: str
    port: int
    ways: tuple[Way, ...]


def component(pod: Pod) -> str:
    """Say what a pod is for: the component it is labelled as, or its own name."""
    said = pod.labels[names.COMPONENT_LABEL].value
    return said if isinstance(said, str) else pod.name


def places(stack: Stack, pods: Sequence[Pod], dns: Pod, site: Site) -> list[Place]:
    """List every place for *stack*, whose *pods* and whose DNS pod *dns* have their addresses of *site*."""
    return [
        *_pods(pods),
        *_services(stack, pods, site),
        *_cluster(stack, dns, site),
        *_node_ports(stack, pods, site),
        *_metadata(),
        *_ranges("blocked", BLOCKED),
        *(place for place in _ranges("site", site_ranges(stack)) if place.address not in site.api_service),
        *_holes(stack),
        *_outside(stack),
    ]


def site_ranges(stack: Stack) -> dict[str, str]:
    """Give the ranges that the stack closes beside the built-in ones -> what is there."""
    cluster, config = stack.config.cluster, stack.config
    said = [
        *((cidr, "API server (cluster.apiServerCidrs)") for cidr in cluster.api_server_cidrs),
        *((cidr, "pods of the cluster (cluster.podCidrs)") for cidr in cluster.pod_cidrs),
        *((cidr, "Services of the cluster (cluster.serviceCidrs)") for cidr in cluster.service_cidrs),
        *((cidr, "nodes of the cluster (cluster.nodeCidrs)") for cidr in cluster.node_cidrs),
        *((cidr, "of the site (egress.blockedCidrs)") for cidr in config.egress.blocked_cidrs),
        *(
            (cidr, f"of the site (tenants.{name}.egress.blockedCidrs)")
            for name, tenant in config.tenants.items()
            for cidr in tenant.egress.blocked_cidrs
        ),
    ]
    return dict(reversed(said))


def _pods(pods: Sequence[Pod]) -> Iterator[Place]:
    for pod in pods:
        listed = {(protocol, number) for _, protocol, number in pod.ports}
        unlisted = {(TCP, number) for number in UNLISTED.get(component(pod), ())}
        ports = [*sorted(listed | unlisted), (TCP, OTHER_PORT), (UDP, OTHER_PORT)]
        for address in pod.addresses:
            yield from _each("pod", pod.name, address, ports, pod)


def _each(group: str, name: str, address: Address, ports: Ports, *ends: End) -> Iterator[Place]:
    for protocol, port in ports:
        ways = tuple(Way(end, port) for end in ends or (address,))
        yield Place(group, name, address, protocol, port, ways)


def _services(stack: Stack, pods: Sequence[Pod], site: Site) -> Iterator[Place]:
    for service in services(stack):
        behind = backends(service, pods)
        for said in service["spec"].get("ports", ()):
            for address in site.service(place_name(service)):
                ways = _both_ways(behind, said, (address, said["port"]))
                protocol = said.get("protocol", TCP)
                yield Place("service", place_name(service), address, protocol, said["port"], ways)


def _both_ways(pods: Iterable[Pod], said: Mapping[str, Any], seen: tuple[Address, int]) -> tuple[Way, ...]:
    """Give the ways to the *pods* behind a Service's port: judged after the Service's address is turned, or before."""
    ends = [(pod, number) for pod in pods for number in _numbers(pod, said)]
    return tuple(Way(*end, before) for before in (None, seen) for end in ends) or (Way(*seen),)


def services(stack: Stack) -> list[dict[str, Any]]:
    """Give the Services of *stack* that have an address of their own."""
    made = (manifest for manifest in stack.manifests() if manifest["kind"] == "Service")
    return [service for service in made if service["spec"].get("clusterIP") != "None"]


def place_name(thing: Mapping[str, Any]) -> str:
    """Name an object by `namespace/name`."""
    return f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"


def backends(service: Mapping[str, Any], pods: Iterable[Pod]) -> list[Pod]:
    """Give the pods behind *service*."""
    wanted, home = service["spec"].get("selector", {}), service["metadata"]["namespace"]
    return [p for p in pods if p.namespace == home and all(p.labels[k].value == v for k, v in wanted.items())]


def _numbers(pod: Pod, said: Mapping[str, Any]) -> list[int]:
    """Give the port of *pod* that a port of a Service leads to."""
    target, protocol = said.get("targetPort", said["port"]), said.get("protocol", TCP)
    if isinstance(target, int):
        return [target]
    return [number for name, kind, number in pod.ports if (name, kind) == (target, protocol)]


def _cluster(stack: Stack, dns: Pod, site: Site) -> Iterator[Place]:
    numbers = stack.config.cluster.dns.ports
    ports = [(protocol, number) for number in numbers for protocol in (UDP, TCP)]
    for address in dns.addresses:
        yield from _each("cluster DNS", "its pods", address, [*ports, (TCP, DNS_METRICS)], dns)
    for address in site.dns_service:
        for protocol in (UDP, TCP):
            ways = (Way(dns, numbers[0]), Way(dns, numbers[0], (address, names.DNS_PORT)))
            yield Place("cluster DNS", "its Service", address, protocol, names.DNS_PORT, ways)
    for address in map(ip_address, stack.config.cluster.dns.addresses):
        yield from _each(
            "cluster DNS", "address in cluster.dns", address, [(UDP, names.DNS_PORT), (TCP, names.DNS_PORT)]
        )
    for service, node in zip(site.api_service, site.nodes, strict=False):
        ways = (Way(node, API_PORT), Way(service, API_SERVICE_PORT))
        yield Place("API server", "its Service", service, TCP, API_SERVICE_PORT, ways)
    for address in (*_firsts(stack.config.cluster.api_server_cidrs), *site.nodes):
        yield from _each("API server", "by address", address, [(TCP, API_PORT), (TCP, API_SERVICE_PORT)])
    for address in site.nodes:
        yield from _each("node", "kubelet", address, [(TCP, names.KUBELET_PORT)])


def _node_ports(stack: Stack, pods: Sequence[Pod], site: Site) -> Iterator[Place]:
    for service in services(stack):
        for said in service["spec"].get("ports", ()):
            for address in site.nodes if "nodePort" in said else ():
                name, protocol, port = f"{NODE_PORT} {place_name(service)}", said.get("protocol", TCP), said["nodePort"]
                ways = _both_ways(backends(service, pods), said, (address, port))
                yield Place("node", name, address, protocol, port, ways)


def _metadata() -> Iterator[Place]:
    for cidr, whose in METADATA.items():
        address, ports = ip_network(cidr)[0], [(TCP, 80), (TCP, 443), (UDP, names.DNS_PORT)]
        yield from _each("metadata", f"{address} of {whose}", address, ports)


def _ranges(group: str, ranges: Mapping[str, str]) -> Iterator[Place]:
    for cidr in ranges:
        for address in ends_of(ip_network(cidr)):
            yield from _each(group, cidr, address, WEB)


def ends_of(network: Network) -> Addresses:
    """Give the first and the last address of *network* that a host may have."""
    if network.num_addresses <= 2:  # noqa: PLR2004 - neither a network's address nor a broadcast address
        return tuple(dict.fromkeys((network[0], network[-1])))
    return network[1], network[-2] if network.version == 4 else network[-1]  # noqa: PLR2004 - IPv4


def _firsts(cidrs: Iterable[str]) -> Iterator[Address]:
    yield from (ends_of(ip_network(cidr))[0] for cidr in cidrs)


def _holes(stack: Stack) -> Iterator[Place]:
    """Give what a stack or a tenant allows, on its ports and one other."""
    said = [*stack.config.egress.allow, *(hole for t in stack.config.tenants.values() for hole in t.egress.allow)]
    for hole in dict.fromkeys(said):
        ports = [(rule.protocol, rule.port) for rule in hole.ports]
        for address in _firsts([hole.cidr]):
            yield from _each("allowed", hole.cidr, address, [*ports, (TCP, OTHER_PORT)])


def _outside(stack: Stack) -> Iterator[Place]:
    """Give an address of the internet for each family, on usual ports and those of any allow-list; and the server."""
    config = stack.config
    lists = (config.egress.internet_ports, *(tenant.egress.internet_ports for tenant in config.tenants.values()))
    ports = sorted({*INTERNET, *((rule.protocol, rule.port) for listed in lists for rule in listed or ())})
    for version in (4, 6):
        if address := internet(stack, version):
            yield from _each("internet", f"IPv{version}", address, ports)
    if (server := config.ssh.server) and server.is_address:
        yield from _each("tunnel server", "elsewhere", ip_address(server.address), [(TCP, server.port)])


def internet(stack: Stack, version: int) -> Address | None:
    """Give an address of the internet that the stack does not close for all."""
    closed = [ip_network(cidr) for cidr in site_ranges(stack)]
    hosts = (ip_address(host) for host in HOSTS)
    return next((h for h in hosts if h.version == version and not any(h in network for network in closed)), None)
