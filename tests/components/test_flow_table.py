"""The table of flows and the policies that come of it say the same, asked by one who knows only the policies."""

import copy
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import product
from typing import Any

import pytest

from components.flows import Anybody, Flow, Party, Pods
from components.model import Manifest
from policy.ends import Pod
from policy.reach import Reach
from stacks.resolve import Stack
from tests.docs.test_isolation import every_flow


def bare_pod(name: str, namespace: str, labels: dict[str, str]) -> Manifest:
    """Give a pod of which only its place and labels count."""
    meta = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [{"name": "main"}]}}


DNS = bare_pod("dns", "kube-system", {"k8s-app": "kube-dns"})
STRANGER = bare_pod("stranger", "somebody-else", {"k8s-app": "kube-dns"})
UNNAMED = bare_pod("unnamed", "gpu-lab-a", {"app": "by-hand"})
"""A resolver, somebody else's pod with its labels, and a pod of a tenant that no row names."""

ADDRESSES = (
    "44.1.2.3", "10.1.2.3", "10.1.7.9", "10.1.8.9", "169.254.169.254", "169.254.20.10", "52.0.0.9", "10.128.0.9",
    "2a00::1", "fd00:ec2::254", "fd00:128::1", "64:ff9b::a01:203", "198.18.7.10",
)  # fmt: skip
"""Internet, holes and what is beside them, metadata, DNS on the node, the site's ranges, pods, IPv6, the API server."""

PORTS = (
    ("TCP", 22),
    ("TCP", 53),
    ("UDP", 53),
    ("TCP", 443),
    ("TCP", 1337),
    ("TCP", 5000),
    ("TCP", 8443),
    ("TCP", 7000),
    ("TCP", 8888),
    ("TCP", 9000),
)

End = Pod | IPv4Address | IPv6Address


@pytest.fixture(scope="module")
def stack() -> Stack:
    """Give a stack with every kind of flow."""
    return every_flow()


def world(stack: Stack, *, admin_tier: bool = False) -> list[Manifest]:
    """Give all objects around and of the stack, with or without the policies above all others."""
    made = (m for m in stack.manifests() if admin_tier or m["kind"] != "ClusterNetworkPolicy")
    return [*made, DNS, STRANGER, UNNAMED]


def ends(reach: Reach) -> list[End]:
    """Give every pod, at an address of the cluster's pods, and every address of interest."""
    pods = [replace(pod, addresses=(IPv4Address(f"10.128.1.{n}"),)) for n, pod in enumerate(reach.pods)]
    return [*pods, *map(ip_address, ADDRESSES)]


def is_of(end: End, party: Party, tenants: set[str]) -> bool:
    """Say whether *end* is one of *party*, by the plain meaning of the words; clients are no pods of ours."""
    if isinstance(party, Anybody):
        return not isinstance(end, Pod) or end.namespace not in {*tenants, "gpu-runtime"}
    if isinstance(party, Pods):
        homes = {party.namespace} if party.namespace else tenants
        return isinstance(end, Pod) and end.namespace in homes and chosen(end.labels.value, party.selector)
    address = end.address(4) if isinstance(end, Pod) else end
    return any(
        address in ip_network(block.cidr) and not any(address in ip_network(hole) for hole in block.excepted)
        for block in party.blocks
    )


def chosen(labels: dict[str, str], selector: Manifest) -> bool:
    """Say whether *labels* meet a selector of one of the two forms that the table has."""
    same = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return same and all(labels.get(e["key"]) in e["values"] for e in selector.get("matchExpressions", ()))


def permitted(flows: list[Flow], source: End, target: End, port: tuple[str, int], tenants: set[str]) -> bool:
    """Say whether a row names both ends and the port; who is not ours is not held by any row at that end."""
    rows = (flow for flow in flows if not flow.ports or port in flow.ports)
    return any(is_of(source, flow.source, tenants) and is_of(target, flow.target, tenants) for flow in rows)


def differences(manifests: list[Manifest], stack: Stack) -> list[str]:
    """List each connection from or to a pod of ours on which table and policies disagree."""
    reach = Reach(manifests)
    ours = {m["metadata"]["name"] for m in manifests if m["kind"] == "Namespace"}
    tenants = ours - {"gpu-runtime"}
    found = []
    for source, target in product(ends(reach), repeat=2):
        held = [isinstance(end, Pod) and end.namespace in ours for end in (source, target)]
        if source is target or not any(held) or {version(source), version(target)} == {4, 6}:
            continue
        for protocol, number in PORTS:
            wanted = permitted(stack.flows, source, target, (protocol, number), tenants)
            if reach.verdict(source, target, number, protocol).open != wanted:
                found.append(f"{named(source)} -> {named(target)} {protocol} {number}: the table says {wanted}")
    return found


def version(end: End) -> int:
    """Give the family in which *end* is reached here."""
    return 4 if isinstance(end, Pod) else end.version


def named(end: End) -> str:
    """Name an end for a message."""
    return end.name if isinstance(end, Pod) else str(end)


@pytest.mark.parametrize("admin_tier", [False, True], ids=["without admin tier", "with admin tier"])
def test_the_policies_are_the_table(stack: Stack, *, admin_tier: bool) -> None:
    """Every connection that a row names is open, and no other, whoever begins it and wherever it goes."""
    assert differences(world(stack, admin_tier=admin_tier), stack) == []


def policies(stack: Stack) -> list[tuple[str, str]]:
    """Name every policy that opens something."""
    made = (m for m in stack.manifests() if m["kind"] == "NetworkPolicy" and len(m["spec"]) > 2)
    return [(m["metadata"]["namespace"], m["metadata"]["name"]) for m in made]


def broken(manifests: list[Manifest], which: tuple[str, str], change: Any) -> list[Manifest]:
    """Give the objects with one policy changed."""
    changed = copy.deepcopy(manifests)
    for manifest in changed:
        meta = manifest["metadata"]
        if manifest["kind"] == "NetworkPolicy" and (meta["namespace"], meta["name"]) == which:
            change(manifest["spec"])
    return changed


def opened(spec: dict[str, Any]) -> None:
    """Open a policy for everything."""
    spec.update(ingress=[{}], egress=[{}])


def closed(spec: dict[str, Any]) -> None:
    """Take all rules out of a policy."""
    spec.pop("ingress", None)
    spec.pop("egress", None)


@pytest.mark.parametrize("change", [opened, closed], ids=["opened", "closed"])
def test_a_single_broken_policy_is_seen(stack: Stack, change: Any) -> None:
    """Whichever policy is opened or emptied, table and policies disagree: none of them is there for nothing."""
    manifests = world(stack)
    whole = [which for which in policies(stack) if not differences(broken(manifests, which, change), stack)]

    assert whole == []
