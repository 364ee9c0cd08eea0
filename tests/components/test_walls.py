"""Ranges, the way out, and the table of flows: what comes of them is what they say, and nothing more."""

import ipaddress
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from components import ranges, walls
from components.dns import DnsSpec
from components.egress import AllowSpec, Egress, EgressSpec, of_stack, sealed
from components.flows import OWN_TUNNEL, ApiServers, external_tunnel, platform_flows, tenant_flows, unit_flows
from policy.baseline import ALLOWED_ANNOTATION, BLOCKED_V4, BLOCKED_V6, METADATA

API = ApiServers(("198.18.7.10/32",))
CIDRS = st.one_of(
    st.builds(
        lambda a, p: str(ipaddress.ip_network((a, p), strict=False)), st.integers(0, 2**32 - 1), st.integers(1, 32)
    ),
    st.builds(
        lambda a, p: str(ipaddress.ip_network((ipaddress.IPv6Address(a), p), strict=False)),
        st.integers(0, 2**128 - 1),
        st.integers(1, 128),
    ),
)


def allow(cidr: str, *ports: Any, reason: str = "license server") -> AllowSpec:
    """Give an allowed range."""
    return AllowSpec.model_validate({"cidr": cidr, "ports": ports or (443,), "reason": reason})


def policies(egress: Egress, *, internal: bool = False) -> dict[str, Any]:
    """Build the policies of a tenant."""
    return walls.policies("lab-a", {}, tenant_flows("lab-a", DnsSpec(), egress, internal=internal))


@given(st.lists(CIDRS, max_size=8))
def test_every_blocked_range_is_excepted_once(cidrs: list[str]) -> None:
    """Whatever ranges a stack adds, each address of them and of the built-in lists is excepted, and no two overlap."""
    blocks = Egress(closed=tuple(cidrs)).internet
    excepted = [ipaddress.ip_network(one) for block in blocks for one in block.excepted]

    whole = ranges.texts(ranges.merged(map(str, excepted)))
    assert all(ranges.covering(cidr, whole) for cidr in (*cidrs, *BLOCKED_V4, *BLOCKED_V6))
    for version in (4, 6):
        same = [wall for wall in excepted if wall.version == version]
        assert all(not a.overlaps(b) for a, b in pairwise(same))
        assert same == sorted(same)


@given(CIDRS, st.lists(CIDRS, max_size=8))
def test_a_hole_holds_nothing_that_is_narrower_and_closed(cidr: str, closed: list[str]) -> None:
    """What is excepted from an allowed range lies strictly inside it, and is all of what is closed there."""
    block = ranges.opened(cidr, closed)
    inside = [one for one in closed if one != cidr and ranges.within(one, cidr)]

    if block is None:
        assert ranges.texts(ranges.merged(inside)) == (cidr,)
        return
    assert all(ranges.within(one, cidr) and one != cidr for one in block.excepted)
    assert all(ranges.covering(one, block.excepted) for one in inside)


@given(st.lists(CIDRS, max_size=8))
@example(["0.0.0.0/1", "128.0.0.0/1"])
@example(["::/1", "8000::/1"])
def test_no_exception_is_lost_in_a_part_of_everywhere(cidrs: list[str]) -> None:
    """kube-router cuts all addresses into parts and loses an exception that is as wide as one: each is narrower."""
    excepted = [one for block in Egress(closed=tuple(cidrs)).internet for one in block.excepted]

    assert not [one for one in excepted if any(ranges.within(part, one) for part in ranges.PARTS)]


def test_each_direction_has_a_policy_of_its_own() -> None:
    """kube-router opens the way out by rules for the way in where one policy has both."""
    rows = [*tenant_flows("lab-a", DnsSpec(), Egress(), internal=True), *unit_flows("lab-a", "web", OWN_TUNNEL, [80])]
    made = [
        *walls.policies("lab-a", {}, rows).values(),
        *walls.policies("gpu-runtime", {}, platform_flows((), API)).values(),
    ]

    assert len(made) == 10
    for policy in made:
        (direction,) = policy["spec"]["policyTypes"]
        assert policy["spec"][direction.lower()]


def test_an_empty_list_opens_nothing() -> None:
    """Without ranges of the site, the built-in ones are closed all the same; without ports, there is no internet."""
    v4, v6 = Egress().internet

    assert ranges.covering("169.254.169.254/32", v4.excepted)
    assert ranges.covering("fd00:ec2::254/128", v6.excepted)
    assert Egress(internet_ports=()).internet == ()
    assert "ipBlock" not in json.dumps(policies(Egress(internet_ports=())))


def test_internet_ports_close_every_other_port() -> None:
    """A list of ports is all that is open of the internet, UDP only where it is said."""
    said = EgressSpec.model_validate({"internetPorts": [443, {"port": 443, "protocol": "UDP"}]})
    (rule,) = [r for r in policies(of_stack(said, ()))["workloads-out"]["spec"]["egress"] if "ipBlock" in str(r)]

    assert rule["ports"] == [{"protocol": "TCP", "port": 443}, {"protocol": "UDP", "port": 443}]


def test_a_hole_is_exact_and_says_why() -> None:
    """An allowed range is opened on its ports alone, and the policy says the reason where the law looks for it."""
    policy = policies(of_stack(EgressSpec(allow=(allow("10.1.2.3/32", 27000),)), ()))["workloads-out"]
    (rule,) = [rule for rule in policy["spec"]["egress"] if "10.1.2.3/32" in json.dumps(rule["to"][0])]

    assert rule == {
        "to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}],
        "ports": [{"protocol": "TCP", "port": 27000}],
    }
    assert json.loads(policy["metadata"]["annotations"][ALLOWED_ANNOTATION]) == {"10.1.2.3/32": "license server"}


def test_a_wide_hole_leaves_out_what_nobody_may_open() -> None:
    """A whole private network may be opened; the cluster in it, metadata services and narrower blocked ranges stay."""
    said = EgressSpec(allow=(allow("10.0.0.0/8"), allow("100.64.0.0/10")), blocked_cidrs=("10.9.0.0/16",))
    wide, shared = of_stack(said, ("10.244.0.0/16", "10.7.0.0/24")).holes

    assert wide.block.excepted == ("10.7.0.0/24", "10.9.0.0/16", "10.244.0.0/16")
    assert shared.block.excepted == ("100.100.100.200/32",)


def test_a_tenant_narrows_and_widens() -> None:
    """A tenant's blocked range closes what the stack opened there; its own hole opens a part of what is blocked."""
    stack = of_stack(EgressSpec(allow=(allow("10.1.0.0/16"), allow("10.2.0.0/16")), blocked_cidrs=()), ())
    said = EgressSpec(blocked_cidrs=("10.1.7.0/24", "10.2.0.0/15"), allow=(allow("10.2.3.4/32"),))
    tenant = stack.of_tenant(said)

    assert [hole.block for hole in tenant.holes] == [
        ranges.Block("10.1.0.0/16", ("10.1.7.0/24",)),
        ranges.Block("10.2.3.4/32"),
    ]
    assert tenant.site == ("10.1.7.0/24", "10.2.0.0/15")


@pytest.mark.parametrize(
    ("blocked", "cidr", "excepted"),
    [
        (("10.0.0.0/8", "10.5.0.0/16"), "10.4.0.0/15", ("10.5.0.0/16",)),
        (("10.0.0.0/8",), "10.96.0.0/11", ("10.120.0.0/20",)),
        (("52.0.1.0/24",), "52.0.0.0/23", ("52.0.1.0/24",)),
        ((), "172.0.0.0/8", ("172.16.0.0/12",)),
    ],
)
def test_what_is_narrower_stays_closed_in_a_tenants_hole(
    blocked: tuple[str, ...], cidr: str, excepted: tuple[str, ...]
) -> None:
    """A narrow range that the stack closed, nodes included, does not vanish in a wider one that it closed as well."""
    stack = of_stack(EgressSpec(blocked_cidrs=blocked), ("10.120.0.0/20",))
    (hole,) = stack.of_tenant(EgressSpec(allow=(allow(cidr),))).holes

    assert hole.block == ranges.Block(cidr, excepted)


def test_a_hole_of_which_nothing_is_left_is_gone() -> None:
    """A tenant that closes both halves of what the stack opened has no hole; no policy excepts a range from itself."""
    stack = of_stack(EgressSpec(allow=(allow("10.1.2.0/24"),)), ())

    assert stack.of_tenant(EgressSpec(blocked_cidrs=("10.1.2.0/25", "10.1.2.128/25"))).holes == ()


def test_holes_into_one_range_are_one() -> None:
    """A range that is opened twice is one rule with the ports of both, and both reasons are told."""
    twice = (allow("10.1.2.3/32", 443), allow("10.1.2.3/32", 8443, reason="package mirror"))
    policy = policies(of_stack(EgressSpec(allow=twice), ()))["workloads-out"]
    (rule,) = [rule for rule in policy["spec"]["egress"] if "10.1.2.3/32" in json.dumps(rule["to"][0])]

    assert [port["port"] for port in rule["ports"]] == [443, 8443]
    assert "license server; package mirror" in policy["metadata"]["annotations"][ALLOWED_ANNOTATION]


def test_callers_of_one_unit_are_no_other_unit() -> None:
    """A unit `x` with callers and a unit `x-callers` have policies of different names."""
    one = walls.policies("lab-a", {}, unit_flows("lab-a", "x", None, [80]))
    other = walls.policies("lab-a", {}, unit_flows("lab-a", "x-callers", OWN_TUNNEL, [80]))

    assert not one.keys() & other.keys()


def test_no_reason_opens_a_metadata_service() -> None:
    """Addresses that hand out credentials are sealed, each of them, and private networks are not."""
    assert all(sealed(cidr) for cidr in METADATA)
    assert sealed("10.0.0.0/8") is None


def test_a_pod_without_a_row_has_no_network() -> None:
    """What opens anything selects components that the table names; only the closing policy selects every pod."""
    made = {**policies(Egress(), internal=True), "closed": walls.default_deny("lab-a", {})}

    assert sorted(made) == ["closed", "units-in", "units-out", "workloads-out"]
    assert made["closed"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for name in ("units-in", "units-out", "workloads-out"):
        assert "app.kubernetes.io/component" in json.dumps(made[name]["spec"]["podSelector"])


def test_units_of_an_internal_tenant_reach_each_other() -> None:
    """`internal: true` opens every port between units of one namespace, at both ends, and to no other namespace."""
    made = policies(Egress(), internal=True)
    peer = {"podSelector": {"matchLabels": {"app.kubernetes.io/component": "unit"}}}

    assert made["units-in"]["spec"]["ingress"] == [{"from": [peer]}]
    assert made["units-out"]["spec"]["egress"] == [{"to": [peer]}]


def test_an_exposed_port_opens_both_ends() -> None:
    """A port exposed to the tenant is open at the unit and, for its callers, on their way out; no other port is."""
    made = walls.policies("lab-a", {}, unit_flows("lab-a", "web", None, [8888]))
    port = [{"protocol": "TCP", "port": 8888}]

    assert [rule["ports"] for rule in made["unit-web-in"]["spec"]["ingress"]] == [port]
    assert [rule["ports"] for rule in made["unit-web.callers-out"]["spec"]["egress"]] == [port]
    assert sorted(made) == ["unit-web-in", "unit-web.callers-out"]


@pytest.mark.parametrize(("address", "cidr"), [("10.0.0.9", "10.0.0.9/32"), ("fd00::9", "fd00::9/128")])
def test_an_external_tunnel_is_one_address_and_port(address: str, cidr: str) -> None:
    """A tunnel server outside is reached at its address and port alone, of either family."""
    made = walls.policies("lab-a", {}, unit_flows("lab-a", "web", external_tunnel(address, 7001), []))["unit-web-out"]

    assert made["spec"]["egress"] == [
        {"to": [{"ipBlock": {"cidr": cidr}}], "ports": [{"protocol": "TCP", "port": 7001}]}
    ]
    assert cidr in json.loads(made["metadata"]["annotations"][ALLOWED_ANNOTATION])


def test_dns_addresses_are_opened_on_the_dns_port_alone() -> None:
    """A cache on the node is reached at its address, on port 53, whatever port the pods of cluster DNS listen on."""
    dns = DnsSpec(ports=(8053,), addresses=("169.254.20.10", "fd00::a"))
    egress = walls.policies("lab-a", {}, tenant_flows("lab-a", dns, Egress(internet_ports=()), internal=False))
    by_selector, by_address = egress["workloads-out"]["spec"]["egress"]

    assert {port["port"] for port in by_selector["ports"]} == {8053}
    assert [peer["ipBlock"]["cidr"] for peer in by_address["to"]] == ["169.254.20.10/32", "fd00::a/128"]
    assert {port["port"] for port in by_address["ports"]} == {53}


def test_both_ends_of_the_tunnel_agree() -> None:
    """A unit may begin what the tunnel servers let in: the row of each end names the same port and pods."""
    out = walls.policies("lab-a", {}, unit_flows("lab-a", "web", OWN_TUNNEL, []))["unit-web-out"]["spec"]["egress"]
    into = walls.policies("gpu-runtime", {}, platform_flows((), API))["frps-in"]["spec"]["ingress"]

    assert out[0]["ports"] == into[1]["ports"]
    assert into[1]["from"][0]["podSelector"] == {"matchLabels": {"app.kubernetes.io/component": "unit"}}
    assert "from" not in into[0]


def test_a_tenant_that_says_nothing_has_the_stacks_own_way_out() -> None:
    """Hundreds of tenants share one computation of the ranges; another object would mean it was done again."""
    stack = of_stack(EgressSpec(blocked_cidrs=("203.1.0.0/16",)), ())

    assert stack.of_tenant(EgressSpec()) is stack
