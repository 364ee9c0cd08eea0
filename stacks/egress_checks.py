"""Problems of the way out that only several values show: what would open too much, or nothing, or break a policy."""

import ipaddress
from collections.abc import Iterator, Mapping

from components import names, ranges
from components.egress import MOST_EXCEPTIONS, AllowSpec, Egress, EgressSpec, left_of, of_stack, sealed
from components.names import PROJECT
from stacks.problems import Problem, Raw, valid
from stacks.schema import ClusterConfig

CONTROL_PORTS = frozenset({2379, 2380, 6443, 10250, 10255, 10256, 10257, 10259})
"""Of a node: etcd, API server, kubelet, kube-proxy, controllers. Who reaches one of them may own the node."""

LINK_LOCAL = "169.254.0.0/16"
"""Sealed but for DNS: caches on the node answer there by custom."""


def egress_problems(raw: Raw, tenants: Mapping[str, Raw], prefix: str) -> Iterator[Problem]:
    """Yield what is wrong with ``egress`` of the stack and of its *tenants*, and with the addresses of DNS."""
    cluster, stack = valid(ClusterConfig, raw.get("cluster", {})), valid(EgressSpec, raw.get("egress", {}))
    if cluster is None or stack is None:
        return
    yield from _dns(cluster, {names.tenant_namespace(prefix, tenant) for tenant in tenants})
    yield from _said("egress", stack, cluster, ())
    way_out = of_stack(stack, cluster.cidrs)
    yield from _fit("egress", way_out)
    for name, tenant in tenants.items():
        said = valid(EgressSpec, tenant.get("egress", {}))
        if said is not None and said != EgressSpec():
            path = f"tenants.{name}.egress"
            yield from _said(path, said, cluster, stack.blocked_cidrs)
            yield from _fit(path, way_out.of_tenant(said))
            yield from _wider_ports(path, said, stack)


def of_cluster(cidr: str, cluster: ClusterConfig) -> str | None:
    """Name the key of the cluster's own ranges, nodes left out, that hold all of *cidr*; None where none does."""
    listed = {
        "apiServerCidrs": cluster.api_server_cidrs,
        "podCidrs": cluster.pod_cidrs,
        "serviceCidrs": cluster.service_cidrs,
    }
    return next((f"{PROJECT}:cluster.{key}" for key, cidrs in listed.items() if ranges.covering(cidr, cidrs)), None)


def _said(path: str, said: EgressSpec, cluster: ClusterConfig, blocked: tuple[str, ...]) -> Iterator[Problem]:
    """Refuse holes into what no reason opens, and what *blocked* ranges above, or the same list, leave nothing of."""
    closed = (*cluster.cidrs, *blocked, *said.blocked_cidrs)
    for index, one in enumerate(said.allow):
        where = f"{path}.allow.{index}"
        if what := sealed(one.cidr):
            yield Problem(f"{where}.cidr", f"{one.cidr} lies in {what}, which no reason opens")
        elif key := of_cluster(one.cidr, cluster):
            advice = f"the cluster's own ({key}); what units need there has a row of its own"
            yield Problem(f"{where}.cidr", f"{one.cidr} is {advice}")
        elif one.cidr in said.blocked_cidrs:
            yield Problem(f"{where}.cidr", f"{one.cidr} is in {path}.blockedCidrs as well; keep one of the two")
        elif left_of(one.cidr, closed) is None:
            yield Problem(f"{where}.cidr", f"nothing of {one.cidr} is left: narrower blocked ranges cover it")
        yield from _on_nodes(where, one, cluster)


def _on_nodes(where: str, one: AllowSpec, cluster: ClusterConfig) -> Iterator[Problem]:
    """Refuse the ports by which a node is ruled; a site's own service on a node's network may be named."""
    ruling = [str(port) for port in one.ports if port.port in CONTROL_PORTS and port.protocol == "TCP"]
    if ruling and ranges.covering(one.cidr, cluster.node_cidrs):
        advice = "whoever reaches that owns the node; no reason opens it"
        yield Problem(f"{where}.ports", f"{', '.join(ruling)} of nodes ({PROJECT}:cluster.nodeCidrs): {advice}")


def _fit(path: str, way_out: Egress) -> Iterator[Problem]:
    """Refuse what a policy cannot say: a whole family excepted from itself, or more than an object holds."""
    for network in way_out.all_closed:
        if network.prefixlen == 0:
            advice = "say `internetPorts: []` to close the internet"
            yield Problem(f"{path}.blockedCidrs", f"covers, with the other lists, every address of {network}; {advice}")
            return
    if way_out.exceptions > MOST_EXCEPTIONS:
        advice = f"at most {MOST_EXCEPTIONS} fit; allow narrower ranges, or block wider ones"
        yield Problem(f"{path}.allow", f"its holes and the internet need {way_out.exceptions} exceptions; {advice}")


def _wider_ports(path: str, said: EgressSpec, stack: EgressSpec) -> Iterator[Problem]:
    """Refuse a tenant's port that the stack's list does not have: a tenant only narrows it."""
    if said.internet_ports is None or stack.internet_ports is None:
        return
    if more := [str(port) for port in said.internet_ports if port not in stack.internet_ports]:
        known = ", ".join(map(str, stack.internet_ports)) or "none"
        advice = "a tenant narrows that list; open single ranges with `allow` and a reason"
        yield Problem(f"{path}.internetPorts", f"{', '.join(more)}: the stack opens {known}; {advice}")


def _dns(cluster: ClusterConfig, tenants: set[str]) -> Iterator[Problem]:
    """Refuse addresses of DNS where no resolver can be, and resolvers that a tenant runs."""
    for index, address in enumerate(cluster.dns.addresses):
        path, cidr = f"cluster.dns.addresses.{index}", ranges.host(address)
        what = sealed(cidr)
        if ranges.covering(cidr, cluster.api_server_cidrs):
            what = f"{PROJECT}:cluster.apiServerCidrs"
        if what and not what.startswith(LINK_LOCAL):
            yield Problem(path, f"{address} lies in {what}; name the address of NodeLocal DNS or of the DNS Service")
    if cluster.dns.namespace in tenants:
        yield Problem("cluster.dns.namespace", f"{cluster.dns.namespace!r} is a tenant's; every tenant would ask it")


def cautions(said: EgressSpec, path: str) -> Iterator[str]:
    """Yield what is odd in *said* and harmless: ranges that are there twice, or within another of the list."""
    holder = None
    for network in sorted(map(ipaddress.ip_network, said.blocked_cidrs), key=ranges.order):
        if holder is not None and ranges.within(network, holder):
            how = "is there twice" if holder == network else f"lies within {holder}, which is there as well"
            yield f"{PROJECT}:{path}.blockedCidrs: {network} {how}; one of the two may go"
        else:
            holder = network
