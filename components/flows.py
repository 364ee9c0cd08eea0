"""The one table of flows: who may begin a connection to whom, on which ports, and why.

Every NetworkPolicy and the documentation's table come from it; a pod that no row names has no network at all.
A row names both ends: where an end is one of our pods, the wall at that end opens too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from components import names, ranges
from components.dns import DnsSpec
from components.egress import Egress, PortRule
from components.model import Manifest


class Port(NamedTuple):
    """A port of a protocol; it reads as `TCP 443`."""

    protocol: str
    number: int


Ports = tuple[Port, ...]
"""None given: every port of every protocol."""


@dataclass(frozen=True)
class Pods:
    """Pods of one namespace, or of every tenant's, found by labels that only the platform sets."""

    name: str
    """Names their NetworkPolicies within the namespace."""
    words: str
    namespace: str | None
    """None: every tenant's."""
    selector: Manifest


@dataclass(frozen=True)
class Addresses:
    """Addresses, and nothing that a selector could say better."""

    words: str
    blocks: tuple[ranges.Block, ...]
    named: bool = False
    """True where the stack file names them with a reason, so that blocked ranges may be among them."""


@dataclass(frozen=True)
class Anybody:
    """Whoever reaches the port, from wherever."""

    words: str


Party = Pods | Addresses | Anybody


@dataclass(frozen=True)
class Flow:
    """One row: connections that *source* may begin, answers included."""

    source: Party
    target: Party
    ports: Ports
    why: str


def tcp(*numbers: int) -> Ports:
    """Give TCP ports."""
    return tuple(Port("TCP", number) for number in numbers)


def both(*numbers: int) -> Ports:
    """Give ports of UDP and TCP, as DNS has them."""
    return tuple(Port(protocol, number) for number in numbers for protocol in ("UDP", "TCP"))


def _said(rules: Iterable[PortRule]) -> Ports:
    """Give ports as a stack file says them."""
    return tuple(Port(rule.protocol, rule.port) for rule in rules)


WORKLOADS = ("prepare", "probe", "unit")
"""Components of a tenant that run a program with a network; whatever else a namespace holds has none."""

SHOW = "show the files of a storage to who signed in"

SHOW_PORT = "`expose: web`: show a port of a unit to who signed in"

ANNOUNCE = "a unit announces its host, and its sessions come back that way"


def _match(*components: str) -> Manifest:
    """Select the pods of some components."""
    if len(components) == 1:
        return {"matchLabels": names.component_selector(components[0])}
    return {"matchExpressions": [{"key": names.COMPONENT_LABEL, "operator": "In", "values": sorted(components)}]}


FRPS = Pods("frps", "tunnel servers", names.PLATFORM_NAMESPACE, _match("frps"))
GATE = Pods("gate", "gate", names.PLATFORM_NAMESPACE, _match("gate"))


PROXY = Pods("proxy", "proxy", names.PLATFORM_NAMESPACE, _match(names.PROXY))


def workloads(namespace: str | None) -> Pods:
    """Give the pods of a tenant that run a program."""
    return Pods("workloads", "units, prepare jobs and the probe", namespace, _match(*WORKLOADS))


def units(namespace: str | None) -> Pods:
    """Give the units of a tenant."""
    return Pods("units", "units", namespace, _match("unit"))


def unit(namespace: str, name: str) -> Pods:
    """Give one unit."""
    return Pods(names.unit(name), "units", namespace, {"matchLabels": names.selector("unit", name)})


BROWSERS = Pods("browsers", "browsers", None, _match("browser"))


def browser(namespace: str, storage: str) -> Pods:
    """Give the browser of one storage."""
    return Pods(names.browser(storage), "browsers", namespace, {"matchLabels": names.selector("browser", storage)})


def dns_pods(dns: DnsSpec) -> Pods:
    """Give the cluster's resolvers; their namespace is not ours, so no policy of ours is at that end."""
    return Pods("dns", "cluster DNS", dns.namespace, {"matchLabels": dict(dns.selector)})


class ApiServers(NamedTuple):
    """Where the cluster's API servers answer: ranges, and TCP ports."""

    cidrs: tuple[str, ...]
    ports: tuple[int, ...] = names.API_SERVER_PORTS


def platform_flows(source_ranges: Sequence[str], api: ApiServers) -> list[Flow]:
    """Give the rows of the platform's own pods; *source_ranges* are those of clients, none for everybody."""
    blocks = tuple(ranges.Block(cidr) for cidr in source_ranges)
    clients = Addresses("clients of the said ranges", blocks) if blocks else Anybody("clients")
    return [
        Flow(clients, FRPS, tcp(names.CONNECT_PORT), "SSH: HTTP CONNECT by host name"),
        Flow(units(None), FRPS, tcp(names.TUNNEL_PORT), ANNOUNCE),
        Flow(FRPS, FRPS, tcp(names.STATE_PORT), "a server that starts asks its peers which hosts it should have"),
        Flow(FRPS, GATE, tcp(names.GATE_PORT), "ask whether a client may announce a host"),
        Flow(GATE, _api_servers(api), tcp(*api.ports), "see which units there are"),
    ]


class Admitted(NamedTuple):
    """Other stacks whose units the proxy leads to: their owners, and the ports that a unit of theirs may show."""

    owners: tuple[str, ...]
    ports: tuple[int, ...]


def proxy_flows(source_ranges: Sequence[str], api: ApiServers, admitted: Admitted) -> list[Flow]:
    """Give the rows of the proxy's pods, but those to units of the stack itself, which are the units' own.

    *source_ranges* are those of clients, none for everybody.
    """
    theirs = [
        {"key": names.COMPONENT_LABEL, "operator": "In", "values": ["unit"]},
        {"key": names.OWNER_LABEL, "operator": "In", "values": sorted(admitted.owners)},
    ]
    guests = Pods("guests", "units of admitted stacks", None, {"matchExpressions": theirs})
    blocks = tuple(ranges.Block(cidr) for cidr in source_ranges)
    clients = Addresses("clients of the said ranges", blocks) if blocks else Anybody("clients")
    return [
        Flow(clients, PROXY, tcp(names.PROXY_PORT, names.PROXY_PLAIN_PORT), "browsers: HTTPS, and the way to it"),
        Flow(PROXY, BROWSERS, tcp(names.BROWSER_PORT), SHOW),
        *([Flow(PROXY, guests, tcp(*admitted.ports), SHOW_PORT)] if admitted.owners and admitted.ports else []),
        Flow(PROXY, _api_servers(api), tcp(*api.ports), "see which storages and ports there are"),
    ]


def browser_flows(namespace: str, storage: str) -> list[Flow]:
    """Give the rows of a storage's browser: it answers, and begins nothing."""
    return [Flow(PROXY, browser(namespace, storage), tcp(names.BROWSER_PORT), SHOW)]


def _api_servers(api: ApiServers) -> Addresses:
    return Addresses("the API server", tuple(map(ranges.Block, api.cidrs)), named=True)


def tenant_flows(namespace: str, dns: DnsSpec, egress: Egress, *, internal: bool) -> list[Flow]:
    """Give the rows of a tenant as a whole."""
    pods = workloads(namespace)
    internet, ports = Addresses("the internet", egress.internet), _said(egress.internet_ports or ())
    between = Flow(units(namespace), units(namespace), (), "`internal: true`: units of one tenant work together")
    return [
        Flow(pods, dns_pods(dns), both(*dns.ports), "resolve names"),
        *dns_addresses(pods, dns),
        *([Flow(pods, internet, ports, "packages, images, data sets")] if internet.blocks else []),
        *(
            Flow(
                pods,
                Addresses("an allowed range", (hole.block,), named=True),
                _said(hole.ports),
                hole.reason,
            )
            for hole in egress.holes
        ),
        *([between] if internal else []),
    ]


class Tunnel(NamedTuple):
    """Where units announce their hosts."""

    servers: Party
    port: int


OWN_TUNNEL = Tunnel(FRPS, names.TUNNEL_PORT)
"""The tunnel servers of this platform, by selector: their addresses may change."""


def external_tunnel(address: str, port: int) -> Tunnel:
    """Give a tunnel server outside the cluster: this address alone, wherever it lies."""
    return Tunnel(Addresses("the tunnel server outside", (ranges.Block(ranges.host(address)),), named=True), port)


def unit_flows(
    namespace: str, name: str, tunnel: Tunnel | None, exposed: Iterable[int], web: Iterable[int] = ()
) -> list[Flow]:
    """Give the rows of one unit: where it announces its host, what its tenant calls, and what the proxy leads to."""
    me, ports, shown = unit(namespace, name), tcp(*exposed), tcp(*web)
    callers = replace(units(namespace), name=f"{names.unit(name)}.callers")  # a dot: no unit has one in its name
    return [
        *([Flow(me, tunnel.servers, tcp(tunnel.port), ANNOUNCE)] if tunnel else []),
        *([Flow(callers, me, ports, "`expose: tenant`: units of one tenant call each other")] if ports else []),
        *([Flow(PROXY, me, shown, SHOW_PORT)] if shown else []),
    ]


def dns_addresses(source: Pods, dns: DnsSpec) -> list[Flow]:
    """Open the resolvers' own addresses, where something judges a packet before the selector can."""
    if not dns.addresses:
        return []
    known = Addresses("addresses of cluster DNS", tuple(map(ranges.Block, map(ranges.host, dns.addresses))), named=True)
    return [
        Flow(source, known, both(names.DNS_PORT), "DNS caches on the node, and plugins that judge before translation")
    ]
