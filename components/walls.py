"""Network policies of tenants: nothing in or out but what is said here."""

import ipaddress
from collections.abc import Iterable

from pydantic import Field

from components import names
from components.kube import metadata
from components.model import Manifest, Model, Network
from policy.baseline import BLOCKED_V4, BLOCKED_V6

EVERYWHERE = ("0.0.0.0/0", "::/0")


class DnsSpec(Model):
    """Where the pods that answer cluster DNS are."""

    namespace: str = "kube-system"
    selector: dict[str, str] = Field(default={"k8s-app": "kube-dns"}, min_length=1)
    ports: tuple[int, ...] = (53,)


def blocked(cidrs: Iterable[str]) -> list[Network]:
    """Merge the built-in lists with *cidrs*: sorted, without overlap, IPv4 before IPv6."""
    networks = [ipaddress.ip_network(cidr) for cidr in (*BLOCKED_V4, *BLOCKED_V6, *cidrs)]
    v4 = ipaddress.collapse_addresses(n for n in networks if isinstance(n, ipaddress.IPv4Network))
    v6 = ipaddress.collapse_addresses(n for n in networks if isinstance(n, ipaddress.IPv6Network))
    return [*v4, *v6]


def dns_egress(dns: DnsSpec) -> Manifest:
    """Allow name resolution by the cluster's own resolver and nobody else's."""
    peer = {"namespaceSelector": names.namespace_selector(dns.namespace), "podSelector": {"matchLabels": dns.selector}}
    ports = [{"protocol": protocol, "port": port} for port in dns.ports for protocol in ("UDP", "TCP")]
    return {"to": [peer], "ports": ports}


def internet_egress(cidrs: Iterable[str]) -> Manifest:
    """Allow every address but the blocked ones, of both families."""
    walls = blocked(cidrs)
    return {
        "to": [
            {"ipBlock": {"cidr": whole, "except": [str(n) for n in walls if n.version == version]}}
            for whole, version in zip(EVERYWHERE, (4, 6), strict=True)
        ]
    }


def tunnel_egress() -> Manifest:
    """Allow the tunnel servers' own port, by selector: their addresses may change."""
    peer = {
        "namespaceSelector": names.namespace_selector(names.PLATFORM_NAMESPACE),
        "podSelector": {"matchLabels": names.component_selector("frps")},
    }
    return {"to": [peer], "ports": [{"protocol": "TCP", "port": names.TUNNEL_PORT}]}


def network_policy(
    name: str, namespace: str, labels: names.Labels, pods: names.Labels, **rules: list[Manifest]
) -> Manifest:
    """Give a policy for *pods* (empty: all of the namespace); a direction that is named is closed but for its rules."""
    kinds = {"ingress": "Ingress", "egress": "Egress"}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name, namespace, labels),
        "spec": {
            "podSelector": {"matchLabels": pods} if pods else {},
            "policyTypes": [kinds[direction] for direction in rules],
            **{direction: listed for direction, listed in rules.items() if listed},
        },
    }


def default_deny(namespace: str, labels: names.Labels) -> Manifest:
    """Close a whole namespace both ways; every other policy opens one thing."""
    return network_policy("default-deny", namespace, labels, {}, ingress=[], egress=[])
