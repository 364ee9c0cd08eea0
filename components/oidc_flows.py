"""The rows of the table of flows that an issuer of identities adds."""

from collections.abc import Iterable

from components import ranges
from components.dns import DnsSpec
from components.flows import PROXY, Addresses, Flow, both, dns_addresses, dns_pods, tcp


def issuer_flows(dns: DnsSpec, cidrs: Iterable[str], ports: Iterable[int]) -> list[Flow]:
    """Give the rows of the proxy where an issuer signs people in: it alone is found, and asked."""
    issuer = Addresses("the issuer of identities", tuple(map(ranges.Block, cidrs)), named=True)
    return [
        Flow(PROXY, issuer, tcp(*ports), "exchange what a login gave for an ID token, and learn the issuer's keys"),
        Flow(PROXY, dns_pods(dns), both(*dns.ports), "find the issuer"),
        *dns_addresses(PROXY, dns),
    ]
