"""Problems of the way out that only several values show: what would open too much, or nothing, or break a policy."""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from components import ranges
from components.egress import BUILT_IN, METADATA_SERVICES, SEALED, AllowSpec, EgressSpec
from components.names import PROJECT
from stacks.problems import Problem, Raw, valid
from stacks.schema import ClusterConfig


def egress_problems(raw: Raw, tenants: Mapping[str, Raw]) -> Iterator[Problem]:
    """Yield what is wrong with ``egress`` of the stack and of its *tenants*."""
    cluster, stack = _cluster(raw), valid(EgressSpec, raw.get("egress", {}))
    if stack is None:
        return
    yield from _allowed("egress", stack, cluster)
    yield from _nothing_left("egress", (*cluster.values(), stack.blocked_cidrs))
    yield from _dns(raw)
    for name, tenant in tenants.items():
        said = valid(EgressSpec, tenant.get("egress", {}))
        if said is not None and said != EgressSpec():
            path = f"tenants.{name}.egress"
            yield from _allowed(path, said, cluster)
            yield from _nothing_left(path, (*cluster.values(), stack.blocked_cidrs, said.blocked_cidrs))
            yield from _wider_ports(path, said, stack)


def _cluster(raw: Raw) -> dict[str, tuple[str, ...]]:
    """Give the ranges of the cluster, by the key that names them."""
    cluster = valid(ClusterConfig, raw.get("cluster", {}))
    if cluster is None:
        return {}
    return {
        "apiServerCidrs": cluster.api_server_cidrs,
        "podCidrs": cluster.pod_cidrs,
        "serviceCidrs": cluster.service_cidrs,
        "nodeCidrs": cluster.node_cidrs,
    }


def _allowed(path: str, said: EgressSpec, cluster: Mapping[str, tuple[str, ...]]) -> Iterator[Problem]:
    """Refuse a hole into what no reason opens, and one that the same list closes."""
    for index, one in enumerate(said.allow):
        where = f"{path}.allow.{index}.cidr"
        if sealed := ranges.covering(one.cidr, SEALED):
            yield Problem(where, f"{one.cidr} lies in {sealed} ({SEALED[sealed]}), which no reason opens")
        elif key := _of_cluster(one, cluster):
            advice = f"the cluster's own ({PROJECT}:cluster.{key}); what units need there has a row of its own"
            yield Problem(where, f"{one.cidr} is {advice}")
        elif one.cidr in said.blocked_cidrs:
            yield Problem(where, f"{one.cidr} is in {path}.blockedCidrs as well; keep one of the two")


def _of_cluster(one: AllowSpec, cluster: Mapping[str, tuple[str, ...]]) -> str | None:
    keys = ("apiServerCidrs", "podCidrs", "serviceCidrs")
    return next((key for key in keys if ranges.covering(one.cidr, cluster.get(key, ()))), None)


def _nothing_left(path: str, closed: Iterable[Iterable[str]]) -> Iterator[Problem]:
    """Refuse ranges that together are all there is: a policy cannot except a whole family from itself."""
    walls = ranges.merged((*BUILT_IN, *(cidr for cidrs in closed for cidr in cidrs)))
    for network in walls:
        if network.prefixlen == 0:
            advice = "say `internetPorts: []` to close the internet"
            yield Problem(f"{path}.blockedCidrs", f"covers, with the other lists, every address of {network}; {advice}")


def _wider_ports(path: str, said: EgressSpec, stack: EgressSpec) -> Iterator[Problem]:
    """Refuse a tenant's port that the stack's list does not have: a tenant only narrows it."""
    if said.internet_ports is None or stack.internet_ports is None:
        return
    if more := [str(port) for port in said.internet_ports if port not in stack.internet_ports]:
        known = ", ".join(map(str, stack.internet_ports)) or "none"
        advice = "a tenant narrows that list; open single ranges with `allow` and a reason"
        yield Problem(f"{path}.internetPorts", f"{', '.join(more)}: the stack opens {known}; {advice}")


def _dns(raw: Raw) -> Iterator[Problem]:
    """Refuse an address of DNS that is a metadata service: on some clouds it answers DNS as well."""
    cluster: Any = raw.get("cluster")
    said = valid(ClusterConfig, cluster) if cluster else None
    for index, address in enumerate(said.dns.addresses if said else ()):
        if whose := METADATA_SERVICES.get(ranges.host(address)):
            advice = "name the address of NodeLocal DNS or of the DNS Service"
            yield Problem(f"cluster.dns.addresses.{index}", f"{address} is a {whose}; {advice}")


def cautions(said: EgressSpec, path: str) -> Iterator[str]:
    """Yield what is odd in *said* and harmless: ranges that are there twice, or within another of the list."""
    holder = None
    for network in sorted(map(ipaddress.ip_network, said.blocked_cidrs), key=ranges.order):
        if holder is not None and ranges.within(network, holder):
            how = "is there twice" if holder == network else f"lies within {holder}, which is there as well"
            yield f"{PROJECT}:{path}.blockedCidrs: {network} {how}; one of the two may go"
        else:
            holder = network
