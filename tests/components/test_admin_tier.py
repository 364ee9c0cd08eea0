"""The admin tier: what it leaves to NetworkPolicies, what no NetworkPolicy opens, and the limits of its kind."""

from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components import admin_tier, ranges
from components.admin_tier import MOST, admin_manifests
from components.dns import DnsSpec
from components.egress import AllowSpec, Egress, EgressSpec, PortRule, of_stack
from components.flows import OWN_TUNNEL, ApiServers, Flow, platform_flows, tcp, tenant_flows, unit_flows, workloads
from policy.baseline import BLOCKED_V4, BLOCKED_V6, METADATA
from policy.ends import Pod
from policy.field import Field
from policy.law import judge
from policy.reach import Reach

DNS = DnsSpec(addresses=("10.132.0.10",))
LABELS = {"gpu-runtime/tenant": "lab-a"}
OPEN = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "later", "namespace": "lab-a"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{}], "egress": [{}]},
}
"""What nobody may write, and what somebody has written all the same."""


def allowed(cidr: str, *ports: int) -> AllowSpec:
    """Give a hole."""
    return AllowSpec(cidr=cidr, ports=tuple(PortRule(port=port) for port in ports), reason="the registry")


EGRESS = of_stack(
    EgressSpec(
        blocked_cidrs=("34.64.0.0/10", "10.40.5.0/24", "2600::/28"),
        allow=(allowed("10.40.0.0/16", 443), allowed("100.96.0.0/11", 443)),
    ),
    ["10.128.0.0/14"],
)


API = ApiServers(("198.18.7.10/32",))


def table(egress: Egress = EGRESS) -> list[Flow]:
    """Give the rows of the platform and of two tenants with a unit each."""
    return [
        *platform_flows((), API),
        *tenant_flows("lab-a", DNS, egress, internal=True),
        *tenant_flows("lab-b", DNS, of_stack(EgressSpec(allow=(allowed("10.50.0.0/16", 22),)), []), internal=False),
        *unit_flows("lab-a", "trainer", OWN_TUNNEL, [6006]),
        *unit_flows("lab-a", "second", OWN_TUNNEL, []),
    ]


def made(egress: Egress = EGRESS) -> list[Any]:
    """Build the policies of lab-a."""
    return list(admin_manifests("lab-a", LABELS, table(egress), egress.site).values())


def pod(name: str, namespace: str, address: str = "10.128.0.9", **labels: str) -> Pod:
    """Give a pod of a namespace."""
    return Pod(name, namespace, Field(labels), addresses=(ip_address(address),))


PUBLIC = "45.0.0.9"
"""Of pods in a cluster whose addresses are no blocked range: rules for namespaces must hold them."""

UNIT = pod("trainer", "lab-a", **{"app.kubernetes.io/component": "unit"})
SECOND = pod("second", "lab-a", **{"app.kubernetes.io/component": "unit"})
FOREIGN = pod("eval", "lab-b", PUBLIC, **{"app.kubernetes.io/component": "unit"})
RESOLVER = pod("coredns", "kube-system", **{"k8s-app": "kube-dns"})
FRPS = pod("frps-0", "gpu-runtime", **{"app.kubernetes.io/component": "frps"})
GATE = pod("gate", "gpu-runtime", PUBLIC, **{"app.kubernetes.io/component": "gate"})

STILL_OPEN = [
    (UNIT, SECOND, 9999),
    (UNIT, RESOLVER, 53),
    (UNIT, FRPS, 7000),
    (UNIT, "8.8.8.8", 443),
    (UNIT, "2001:4860:4860::8888", 443),
    (UNIT, "10.40.1.1", 443),
    (UNIT, "100.100.100.199", 443),
    (UNIT, "10.132.0.10", 53),
    (FOREIGN, "10.0.0.1", 443),
]
SHUT = [
    (UNIT, FOREIGN, 443),
    (FOREIGN, UNIT, 6006),
    (FRPS, UNIT, 2222),
    (UNIT, RESOLVER, 9153),
    (UNIT, FRPS, 1337),
    (UNIT, GATE, 9000),
    (UNIT, "10.132.0.10", 443),
    (UNIT, "10.0.0.1", 443),
    (UNIT, "10.40.1.1", 22),
    (UNIT, "10.40.5.1", 443),
    (UNIT, "10.50.0.1", 22),
    (UNIT, "10.128.0.1", 443),
    (UNIT, "34.65.0.1", 443),
    (UNIT, "2600::1", 443),
    *((UNIT, cidr.partition("/")[0], 443) for cidr in {**METADATA, **BLOCKED_V4, **BLOCKED_V6}),
]


def said(call: Any) -> str:
    """Name a call as pytest shows it."""
    source, target, port = call
    return f"{source.name}-{getattr(target, 'name', target)}-{port}"


def is_open(policies: list[Any], source: Any, target: Any, port: int) -> bool:
    """Judge a call where a NetworkPolicy of the tenant opens everything."""
    end = ip_address(target) if isinstance(target, str) else target
    reach = Reach([*policies, OPEN])
    return any(reach.verdict(source, end, port, protocol).open for protocol in ("TCP", "UDP"))


@pytest.mark.parametrize("call", STILL_OPEN, ids=said)
def test_what_the_table_permits_is_left_to_network_policies(call: Any) -> None:
    """And so is the internet, and everything between pods of other namespaces."""
    assert is_open(made(), *call)


@pytest.mark.parametrize("call", SHUT, ids=said)
def test_a_later_policy_opens_nothing_that_the_table_does_not_permit(call: Any) -> None:
    """Without the admin tier the same policy opens it."""
    assert is_open([], *call)
    assert not is_open(made(), *call)


def test_it_opens_nothing_itself() -> None:
    """Every rule denies or passes on: a connection that no NetworkPolicy permits stays closed."""
    assert {rule["action"] for policy in made() for way in ("ingress", "egress") for rule in policy["spec"][way]} == {
        "Deny",
        "Pass",
    }


def test_one_policy_for_a_tenant_that_obeys_the_law() -> None:
    """Its name cannot be another tenant's, whatever these are called."""
    (policy,) = made()

    assert policy["metadata"]["name"] == "gpu-runtime.lab-a"
    assert judge([policy]) == []


MANY = of_stack(
    EgressSpec(
        blocked_cidrs=tuple(f"34.{i // 250}.{i % 250}.0/25" for i in range(1000)),
        allow=tuple(allowed(f"10.{i}.0.0/16", *range(i + 1, i + 41)) for i in range(50)),
    ),
    ["10.7.7.7/32"],
)


def test_the_limits_of_the_kind_are_kept() -> None:
    """A thousand ranges and fifty holes of forty ports: more policies, no list that the API server refuses."""
    policies = made(MANY)
    rules = [policy["spec"].get(way, []) for policy in policies for way in ("ingress", "egress")]
    peers = [rule.get(way, []) for listed in rules for rule in listed for way in ("to", "from")]
    protocols = [rule.get("protocols", []) for listed in rules for rule in listed]
    networks = [peer.get("networks", []) for listed in peers for peer in listed]

    assert len(policies) > 1
    assert max(map(len, rules + peers + protocols + networks)) == MOST
    assert all(len(set(listed)) == len(listed) for listed in networks)


def test_several_policies_are_one_list() -> None:
    """What no longer fits the first is asked after it, also beyond the limits of one policy."""
    policies = made(MANY)

    assert [policy["spec"]["priority"] for policy in policies] == list(range(500, 500 + len(policies)))
    assert [policy["metadata"]["name"] for policy in policies[:2]] == ["gpu-runtime.lab-a", "gpu-runtime.lab-a.2"]
    assert is_open(policies, UNIT, "10.49.0.1", 50)
    assert is_open(policies, UNIT, "10.7.7.8", 8)
    assert not is_open(policies, UNIT, "10.7.7.7", 8)
    assert not is_open(policies, UNIT, "10.49.0.1", 91)
    assert not is_open(policies, UNIT, "34.3.249.1", 443)
    assert is_open(policies, UNIT, "34.3.249.129", 443)


def test_who_may_call_a_tenant_is_left_to_network_policies() -> None:
    """A row from the platform into the namespace opens the way for it, on its port alone."""
    proxy = replace(workloads("gpu-runtime"), selector={"matchLabels": {"app": "proxy"}})
    flow = Flow(proxy, workloads("lab-a"), tcp(8888), "web ports")
    policies = list(admin_manifests("lab-a", LABELS, [flow], ()).values())
    caller = pod("proxy", "gpu-runtime", app="proxy")

    assert is_open(policies, caller, UNIT, 8888)
    assert not is_open(policies, caller, UNIT, 2222)
    assert not is_open(policies, FRPS, UNIT, 8888)


PARTS = st.builds(
    lambda first, length: str(ip_network((int(ip_address("10.40.5.0")) + first, length), strict=False)),
    st.integers(0, 255),
    st.integers(25, 32),
)


@settings(deadline=None)
@given(st.lists(PARTS, max_size=6))
def test_a_range_with_exceptions_is_written_without(parts: list[str]) -> None:
    """Address by address: the whole range less each exception, in ranges that share none."""
    block = ranges.opened("10.40.5.0/24", parts)
    left = [ip_network(cidr) for cidr in (admin_tier._left(block) if block else ())]
    gone = {address for part in parts for address in ip_network(part)}

    assert sorted(address for one in left for address in one) == sorted(set(ip_network("10.40.5.0/24")) - gone)
