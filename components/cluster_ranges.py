"""Whether the walls know every address of the cluster: what is public and not listed would be open to tenants."""

import ipaddress
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from lightkube.resources.core_v1 import Node

from components import ranges
from components.cluster_view import View
from components.model import Network
from components.wording import shortened
from policy.baseline import BLOCKED

SHOWN = 5
"""Ranges named in a message; a cluster of many nodes has as many."""

ADDRESS_TYPES = frozenset({"InternalIP", "ExternalIP"})

WHOSE = {
    "podCidrs": "pods",
    "nodeCidrs": "nodes",
    "serviceCidrs": "Services",
    "apiServerCidrs": "the API server",
}
"""Key of `gpu-runtime:cluster` to what is at its addresses."""


def unlisted(view: View, listed: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (key of `gpu-runtime:cluster`, what to add to it) for addresses that no list has.

    *listed* are the ranges that the stack file names, wherever it does; the built-in ones count as well.
    """
    walls = ranges.merged((*BLOCKED, *listed))
    known: set[Network] = set()
    for key, found in _seen(view).items():
        fresh = [one for one in ranges.merged(found) if one not in known and not _inside(one, walls)]
        known.update(fresh)  # an API server on a node has that node's address
        if fresh:
            yield key, _advice(key, fresh)


def unreached(view: View, cidrs: Iterable[str], ports: Iterable[int]) -> Iterator[tuple[str, str]]:
    """Yield (key of `gpu-runtime:cluster`, what to add to it) where the API server answers and no row leads the gate.

    *cidrs* and *ports* are what the stack file says of the API server.
    """
    known, open_ports = ranges.merged(cidrs), set(ports)
    found = ranges.merged(_seen(view)["apiServerCidrs"])
    if far := [one for one in found if not _inside(one, known)]:
        said = shortened(list(ranges.texts(far)), SHOWN)
        yield "apiServerCidrs", f"add {said}: the API server answers there, and the gate asks it nowhere else"
    answering = {port.port for one in view.slices for port in one.ports or () if port.port}
    if closed := sorted(answering - open_ports):
        said = ", ".join(map(str, closed))
        yield "apiServerPorts", f"add {said}: the API server answers there, and the gate asks it nowhere else"


def unasked(view: View, cidrs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (key of `gpu-runtime:cluster`, what to add to it) for pods outside *cidrs*, of those that are seen."""
    known = ranges.merged(cidrs)
    if far := [one for one in ranges.merged(_pod_addresses(view)) if not _inside(one, known)]:
        said = shortened(list(ranges.texts(far)), SHOWN)
        yield "podCidrs", f"add the range of {said}: pods are there, and the proxy asks none elsewhere"


def _inside(one: Network, walls: list[Network]) -> bool:
    """Say whether one of *walls*, sorted and without overlap, holds all of *one*: only the last to begin can."""
    after = bisect_right(walls, ranges.order(one), key=ranges.order)
    return after > 0 and ranges.within(one, walls[after - 1])


def _advice(key: str, found: list[Network]) -> str:
    return (
        f"add {shortened(ranges.texts(found), SHOWN)}, or the whole range that the cluster takes them from: "
        f"addresses of {WHOSE[key]} that no list has, so that tenants would reach them as internet"
    )


def _seen(view: View) -> dict[str, list[str]]:
    """Give every range of the cluster that can be seen, by the key that should list it."""
    services = (*view.services, *view.dns_services)
    return {
        "podCidrs": [*_pod_ranges(view.nodes), *_pod_addresses(view)],
        "serviceCidrs": [
            *(cidr for one in view.service_cidrs if one.spec for cidr in one.spec.cidrs or ()),
            *_hosts(ip for one in services if one.spec for ip in one.spec.clusterIPs or ()),
        ],
        "nodeCidrs": _hosts(address for node in view.nodes for address in _addresses(node)),
        "apiServerCidrs": _hosts(ip for one in view.slices for end in one.endpoints or () for ip in end.addresses),
    }


def _pod_ranges(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        if node.spec:
            yield from node.spec.podCIDRs or ((node.spec.podCIDR,) if node.spec.podCIDR else ())


def _pod_addresses(view: View) -> list[str]:
    """Take DNS pods for a sample: where the network plugin has ranges of its own, nodes tell none."""
    pods = [pod for pod in view.dns_pods if pod.spec and pod.status and not pod.spec.hostNetwork]
    return _hosts(ip.ip for pod in pods if pod.status for ip in pod.status.podIPs or ())


def _addresses(node: Node) -> Iterator[str]:
    said: Iterable[Any] = (node.status.addresses if node.status else None) or ()
    return (one.address for one in said if one.type in ADDRESS_TYPES)


def _hosts(addresses: Iterable[str | None]) -> list[str]:
    """Write addresses as ranges; a headless Service says None in words, and is no address."""
    return [ranges.host(address) for address in addresses if address and _is_address(address)]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
