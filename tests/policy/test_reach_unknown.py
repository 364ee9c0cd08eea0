"""What the evaluator cannot decide counts as open."""

from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest

from policy.plain import UNKNOWN
from policy.reach import Reach
from tests.policy.test_reach import DENY, Json, pod, policy, space, to
from tests.policy.test_reach_tiers import ALL, admin
from tests.policy.test_reach_tiers import to as rule

OPEN_IN = policy("b", "in", ingress=[{}])
ANY: Json = {"networks": ["0.0.0.0/0"]}
ZONE = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "DoesNotExist"}]}
BLUE = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
ZONE_LABEL = {"topology.kubernetes.io/zone": "z1"}
WEB, DB = ("a/web", "10.1.0.1"), ("b/db", "10.1.0.2")


def opens(objects: list[Any], target: str = "b/db", *, placed: bool = True) -> bool:
    """Say whether a/web may open a connection to port 80 of *target*, a pod or an address."""
    reach = Reach([pod("web"), pod("db", "b"), *objects])
    found = {
        item.name: replace(item, addresses=(ip_address(at),) if placed else ())
        for item, (_, at) in zip(reach.pods, (WEB, DB), strict=True)
    }
    return reach.verdict(found["a/web"], found.get(target) or ip_address(target), 80).open


def out(*peers: Json, **more: Any) -> Json:
    """Open the way out to *peers*, under a name of its own."""
    return to(*peers, name="out", **more)


def test_labels_of_a_namespace_that_nobody_has_seen() -> None:
    """A namespace beyond the set may carry any label; one of the set carries those that it says."""
    assert opens([DENY, out(BLUE)])
    assert opens([DENY, out(BLUE), space("b", team="blue")])
    assert not opens([DENY, out(BLUE), space("b", team="red")])
    assert not opens([DENY, out({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "c"}}})])


def test_a_pod_without_an_address_may_be_anywhere() -> None:
    """A block may hold it; once it has an address, only its own."""
    block = out({"ipBlock": {"cidr": "10.9.0.0/16"}})

    assert opens([DENY, block], placed=False)
    assert not opens([DENY, block])


@pytest.mark.parametrize(
    ("cidr", "address", "expected"),
    [
        ("::ffff:10.0.0.0/104", "10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "11.1.2.3", False),
        ("::/0", "::ffff:10.1.2.3", False),
        ("::fffe:0:0/95", "10.1.2.3", False),
    ],
)
def test_ipv4_within_ipv6_is_ipv4(cidr: str, address: str, *, expected: bool) -> None:
    """As Go reads it, and as packets are sent."""
    assert opens([DENY, out({"ipBlock": {"cidr": cidr}})], address) == expected


def test_an_exception_within_ipv6_is_ipv4() -> None:
    """What is excepted is closed in the same reading."""
    block = {"cidr": "0.0.0.0/0", "except": ["::ffff:10.0.0.0/104"]}

    assert not opens([DENY, out({"ipBlock": block})], "10.1.2.3")
    assert opens([DENY, out({"ipBlock": block})], "11.1.2.3")


def test_where_a_pod_runs_is_no_ground_to_hold_it() -> None:
    """The API server adds zone and region when a pod is bound to a node."""
    assert opens([policy(podSelector=ZONE, policyTypes=["Egress"])])
    assert opens([DENY, out({"namespaceSelector": {}, "podSelector": {"matchLabels": ZONE_LABEL}}), OPEN_IN])


def test_of_twin_namespaces_nobody_knows_which_is_kept() -> None:
    """Labels that they disagree on may be either's, in whichever order they come."""
    blue, red = space("b", team="blue", size="s"), space("b", team="red", size="s")
    small = out({"namespaceSelector": {"matchLabels": {"size": "l"}}})

    assert opens([DENY, out(BLUE), blue, red])
    assert opens([DENY, out(BLUE), red, blue])
    assert not opens([DENY, small, red, blue])
    assert opens([DENY, out(BLUE), red, {**red, "metadata": {"name": "b", "labels": UNKNOWN}}])


def test_of_twin_policies_nobody_knows_which_is_kept() -> None:
    """What both open is open, and neither closes."""
    assert opens([DENY, {**DENY, "spec": {**DENY["spec"], "podSelector": {"matchLabels": {"app": "nobody"}}}}])
    assert not opens([DENY])


def cluster(tier: Any, priority: Any, action: str, name: str = "c") -> Json:
    """Give a ClusterNetworkPolicy of tier and priority that somebody may not know."""
    found = admin(1, ALL, egress=[rule(action, ANY)])
    spec = {**found["spec"], "tier": tier, "priority": priority}
    return {**found, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("tier", [UNKNOWN, None, "Default"])
def test_a_tier_that_nobody_knows_may_be_any(tier: Any) -> None:
    """What it accepts is open past all NetworkPolicies, and what it denies is not surely closed."""
    assert opens([DENY, cluster(tier, 1, "Accept")], "1.1.1.1")
    assert opens([cluster(tier, 1, "Deny")], "1.1.1.1")


@pytest.mark.parametrize("priority", [UNKNOWN, None, "1", True])
def test_a_priority_that_nobody_knows_may_be_any(priority: Any) -> None:
    """It may come after one that accepts, and before one that denies."""
    accepts, denies = cluster("Admin", 5, "Accept", "five"), cluster("Admin", 5, "Deny", "five")

    assert opens([DENY, cluster("Admin", priority, "Deny"), accepts], "1.1.1.1")
    assert opens([DENY, denies, cluster("Admin", priority, "Accept")], "1.1.1.1")
    assert not opens([denies], "1.1.1.1")


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy"),
        ("cilium.io/v2", "CiliumClusterwideNetworkPolicy"),
        ("extensions/v1beta1", "NetworkPolicy"),
    ],
)
def test_a_policy_that_is_not_read_may_open_everything(version: str, kind: str) -> None:
    """It is never passed over in silence: the reason names it."""
    foreign = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": {}}
    reach = Reach([pod("web"), DENY, foreign])
    verdict = reach.verdict(reach.pods[0], ip_address("1.1.1.1"), 80)

    assert verdict.open
    assert verdict.why == f"egress by {kind} x, which is not read"
