"""The walls of a good stack, broken one by one: the law sees each, so that nothing can be forgotten."""

import copy
import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from typing import Any

import pytest

from policy.baseline import ALLOWED_ANNOTATION, BLOCKED_ANNOTATION, METADATA
from policy.checks import blocked_egress, broad_policies, default_deny, foreign_peers, open_peers
from policy.law import judge
from policy.plain import UNKNOWN
from stacks.load import parse
from stacks.resolve import Stack
from tests.stack_files import FILES, raw

CHECKS = (default_deny, broad_policies, open_peers, foreign_peers, blocked_egress)
PIN = "kubernetes.io/metadata.name"
ALL_BUT = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}

Node = tuple[Any, ...]
"""The keys on the way to a value of a policy."""


@cache
def stack() -> list[Any]:
    """Render two tenants with every kind of way out: internet, allowed ranges, DNS by address, units of one tenant."""
    config = raw(next(file for file in FILES if file.stem == "Pulumi.prod"))
    config["cluster"]["dns"]["addresses"] = ["10.132.0.10", "169.254.20.10"]
    config["egress"]["allow"] = [{"cidr": "10.40.0.0/16", "ports": [443], "reason": "the registry"}]
    config["tenants"]["lab-b"]["internal"] = True
    return Stack(parse(config, {"gpu-runtime:secret"}), "prod").manifests()


def of_tenant(policy: Any) -> bool:
    """Say whether a policy is a tenant's."""
    return bool(policy["metadata"]["namespace"] != "gpu-runtime")


def blocks(peers: Any) -> bool:
    """Say whether one of the peers is an address."""
    return any("ipBlock" in peer for peer in peers)


def forgotten_exceptions(_policy: Any, node: Node, value: Any) -> Iterator[Any]:
    """Leave out all exceptions, and each of them, of both families."""
    if node[-1] == "except":
        yield from (None, *(value[:index] + value[index + 1 :] for index in range(len(value))))


def halved_exceptions(_policy: Any, node: Node, value: Any) -> Iterator[Any]:
    """Except only one half of a range."""
    if node[-2:-1] == ("except",) and value.endswith("/8"):
        yield value.replace("/8", "/9")


def split_internet(_policy: Any, node: Node, value: Any) -> Iterator[Any]:
    """Write the internet as two halves, with nothing excepted, or with an exception that is as large."""
    if node[-1] == "to" and blocks(value):
        yield [{"ipBlock": {"cidr": "0.0.0.0/1"}}, {"ipBlock": {"cidr": "128.0.0.0/1"}}]
        yield [{"ipBlock": {"cidr": "::/1"}}, {"ipBlock": {"cidr": "8000::/1", "except": ["8000::/1"]}}]


def unreasoned(_policy: Any, node: Node, value: Any) -> Iterator[Any]:
    """Take the reasons away, and each of them."""
    if node[-1] == ALLOWED_ANNOTATION:
        reasons = json.loads(value)
        yield from (None, "{}", json.dumps(list(reasons)), UNKNOWN)
        yield from (json.dumps({cidr: why for cidr, why in reasons.items() if cidr != gone}) for gone in reasons)
        yield from (json.dumps({**reasons, gone: ""}) for gone in reasons)


def opened_metadata(_policy: Any, node: Node, value: Any) -> Iterator[Any]:
    """Open each metadata service."""
    if node[-1] == "to":
        yield from ([*value, {"ipBlock": {"cidr": cidr}}] for cidr in METADATA)


def strange_ranges(_policy: Any, node: Node, _value: Any) -> Iterator[Any]:
    """Write a peer's range so that the API server would refuse it, or nobody knows it."""
    if node[-1] in ("cidr", "ipBlock"):
        yield from ("10.0.0.1/8", "10.0.0.0", "::ffff:10.0.0.0/104", 8, {}, UNKNOWN)


def strange_exceptions(_policy: Any, node: Node, value: Any) -> Iterator[Any]:
    """Except what the API server would refuse, or nobody knows."""
    if node[-1] == "except":
        yield from ([*value, other] for other in ("0.0.0.0/0", "::/0", "10.0.0.1/8", None, 8))
        yield UNKNOWN


def any_port(policy: Any, node: Node, value: Any) -> Iterator[Any]:
    """Open every port where an address is reached that is blocked elsewhere."""
    if node[-1] == "ports" and "egress" in node and blocks(policy["spec"]["egress"][node[2]]["to"]):
        yield from (None, [], [{"protocol": "TCP"}], [{**value[0], "endPort": 65535}], UNKNOWN)


def any_port_of_entrance(policy: Any, node: Node, value: Any) -> Iterator[Any]:
    """Open every port to everybody."""
    if node[-1] == "ports" and "ingress" in node and "from" not in policy["spec"]["ingress"][node[2]]:
        yield from (None, [], [{"protocol": "TCP"}], [{**value[0], "endPort": 65535}], UNKNOWN)


def open_sides(policy: Any, node: Node, value: Any) -> Iterator[Any]:
    """Add a peer that is nobody, leave all out, or let nobody know them."""
    if node[-1] in ("to", "from"):
        yield from (None, [], [*value, {}], [*value, None], UNKNOWN)
    if node[-1] == "from" and of_tenant(policy):
        yield [*value, {"ipBlock": {"cidr": "0.0.0.0/0"}}]


def wide_policies(policy: Any, node: Node, _value: Any) -> Iterator[Any]:
    """Let rules hold for every pod."""
    if node == ("spec", "podSelector") and {"egress", "ingress"} & set(policy["spec"]):
        yield from (None, {}, {"matchLabels": {}}, ALL_BUT, {"matchLabels": {"app": UNKNOWN}})


def any_namespace(policy: Any, node: Node, _value: Any) -> Iterator[Any]:
    """Reach pods of every namespace, or of those that carry a label which somebody may claim."""
    if node[-1] == "namespaceSelector":
        yield from ({}, {"matchLabels": {}}, ALL_BUT, UNKNOWN)
        yield {"matchLabels": {PIN: UNKNOWN}}
        if of_tenant(policy):
            yield {"matchLabels": {"team": "platform"}}


def foreign_tenant(policy: Any, node: Node, _value: Any) -> Iterator[Any]:
    """Reach pods of the other tenant."""
    if node[-1] == PIN and of_tenant(policy):
        yield from {"gpu-lab-a", "gpu-lab-b"} - {policy["metadata"]["namespace"]}


def all_pods(policy: Any, node: Node, value: Any) -> Iterator[Any]:
    """Reach every pod of another namespace."""
    if isinstance(node[-1], int) and isinstance(value, dict) and "namespaceSelector" in value and of_tenant(policy):
        yield from ({**value, "podSelector": selector} for selector in (None, {}, ALL_BUT))


def open_default(policy: Any, node: Node, value: Any) -> Iterator[Any]:
    """Let the policy that closes a namespace not close it."""
    if policy["metadata"]["name"] == "default-deny" and node == ("spec",):
        yield from ({**value, "policyTypes": types} for types in (None, [], ["Ingress"], ["Egress"], ["Ingress"] * 2))
        yield {**value, "policyTypes": UNKNOWN}
        yield {**value, "podSelector": {"matchLabels": {"app": "sample"}}}
        yield from ({**value, direction: [{}]} for direction in ("ingress", "egress"))


BREAKS: list[tuple[Callable[[Any, Node, Any], Iterator[Any]], Any]] = [
    (forgotten_exceptions, blocked_egress),
    (halved_exceptions, blocked_egress),
    (split_internet, blocked_egress),
    (unreasoned, blocked_egress),
    (opened_metadata, blocked_egress),
    (strange_ranges, blocked_egress),
    (strange_exceptions, blocked_egress),
    (any_port, blocked_egress),
    (any_port_of_entrance, open_peers),
    (open_sides, open_peers),
    (wide_policies, broad_policies),
    (any_namespace, foreign_peers),
    (foreign_tenant, foreign_peers),
    (all_pods, foreign_peers),
    (open_default, default_deny),
]


def test_the_stack_is_good() -> None:
    """What is broken below is whole before."""
    assert judge(stack()) == []


@pytest.mark.parametrize(("broken", "check"), BREAKS, ids=lambda item: getattr(item, "__name__", "").rpartition(".")[2])
def test_each_break_is_seen(broken: Any, check: Any) -> None:
    """In whichever policy, at whichever place."""
    policies = [item for item in stack() if item["kind"] == "NetworkPolicy"]
    found = {
        f"{policy['metadata']['namespace']}/{policy['metadata']['name']} {node} {new!r}": seen(policy, node, new)
        for policy in policies
        for node, value in nodes(policy)
        for new in broken(policy, node, value)
    }

    assert found
    assert [name for name, checks in found.items() if check.ID not in checks] == []


@pytest.mark.parametrize("namespace", ["gpu-runtime", "gpu-lab-a", "gpu-lab-b"])
def test_a_dropped_default_is_seen(namespace: str) -> None:
    """Of the platform and of each tenant."""
    rest = [
        item
        for item in stack()
        if (item["metadata"]["name"], item["metadata"].get("namespace")) != ("default-deny", namespace)
    ]

    assert [(found.check, found.name) for found in judge(rest, CHECKS)] == [("default-deny", namespace)]


@pytest.mark.parametrize("site", [None, "34.0.0.0/8", "2600::/16", "10.0.0.1/8", UNKNOWN])
def test_ranges_of_the_site_must_be_said_and_excepted(site: Any) -> None:
    """A tenant's namespace says them; what it says and no policy excepts is seen."""
    manifests = copy.deepcopy(stack())
    namespace = next(
        item for item in manifests if item["kind"] == "Namespace" and item["metadata"]["name"] == "gpu-lab-a"
    )
    namespace["metadata"]["annotations"][BLOCKED_ANNOTATION] = site

    assert {found.check for found in judge(manifests, CHECKS)} == {"blocked-egress"}


def test_a_policy_of_an_unknown_namespace_obeys_every_tenant() -> None:
    """What may land anywhere must leave out the ranges of all, and belongs to no platform."""
    manifests = copy.deepcopy([item for item in stack() if item["kind"] in ("Namespace", "NetworkPolicy")])
    manifests[0]["metadata"]["annotations"] = {BLOCKED_ANNOTATION: "34.0.0.0/8"}
    policy = copy.deepcopy(next(item for item in manifests if item["metadata"]["name"] == "workloads-out"))
    policy["metadata"]["namespace"] = UNKNOWN

    assert [found.check for found in judge([*manifests, policy], CHECKS)] == ["blocked-egress"]


def nodes(value: Any, above: Node = ()) -> Iterator[tuple[Node, Any]]:
    """Yield every value inside *value*, and the way to it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield (*above, key), child
        yield from nodes(child, (*above, key))


def seen(policy: Any, node: Node, new: Any) -> set[str]:
    """Return the checks that see *new* in place of what *policy* has at *node*."""
    broken = copy.deepcopy(policy)
    holder = broken
    for key in node[:-1]:
        holder = holder[key]
    holder[node[-1]] = new
    rest = (item for item in stack() if item is not policy and item["kind"] in ("Namespace", "NetworkPolicy"))
    return {found.check for found in judge(chain(rest, [broken]), CHECKS)}
