"""The rig enforces NetworkPolicies, of both families where it has both."""

from collections.abc import Iterator

import pytest

from tests.rig.cluster import Cluster, Door
from tools.rig import outside, settle

FAMILIES = {
    4: ("203.0.113.7", "198.51.100.7", "198.51.100.0/24"),
    6: ("2001:db8::7", "2001:db8:bad::7", "2001:db8:bad::/48"),
}
"""An address that is permitted, one that is not, and the range of the latter."""

EVERYWHERE = {4: "0.0.0.0/0", 6: "::/0"}
WEB = [{"port": 80}]


@pytest.fixture
def walled(cluster: Cluster) -> Iterator[str]:
    """Give a namespace with three pods that listen, and hosts outside."""
    namespace, pods = cluster.namespace("walled", denied=True), ["client", "friend", "stranger"]
    cluster.start(namespace, pods, "600", "listen", "80")
    for name in pods:
        cluster.ready(namespace, name)
    with outside(cluster.rig, *(address for family in families(cluster) for address in FAMILIES[family][:2])):
        yield namespace
    cluster.remove(namespace)


def families(cluster: Cluster) -> list[int]:
    """Return the families that the rig has."""
    return [4, 6] if cluster.rig.network.ipv6 else [4]


def doors(cluster: Cluster, namespace: str, *pods: str) -> set[Door]:
    """Return the doors of pods."""
    return {(address, 80) for pod in pods for address in cluster.addresses(namespace, f"--selector=app={pod}")}


def test_policies_hold_in_each_family(cluster: Cluster, walled: str) -> None:
    """Ranges with exceptions, pods as peers in both directions, and later changes: all as Kubernetes says it."""
    hosts = {(FAMILIES[family][place], 80): place == 0 for family in families(cluster) for place in (0, 1)}
    permitted = {door for door, good in hosts.items() if good}
    pods = doors(cluster, walled, "friend", "stranger")
    everything = sorted(pods | set(hosts))
    settle(cluster.rig)
    assert cluster.open_doors(walled, "client", everything) == set()

    blocks = [{"ipBlock": {"cidr": EVERYWHERE[f], "except": [FAMILIES[f][2]]}} for f in families(cluster)]
    client = {"podSelector": {"matchLabels": {"app": "client"}}}
    friend = {"podSelector": {"matchLabels": {"app": "friend"}}}
    to_friend = {"to": [friend], "ports": WEB}
    cluster.policy(walled, "out", **client, policyTypes=["Egress"], egress=[{"to": blocks, "ports": WEB}, to_friend])
    cluster.policy(walled, "in", **friend, policyTypes=["Ingress"], ingress=[{"from": [client], "ports": WEB}])
    settle(cluster.rig)
    assert cluster.open_doors(walled, "client", everything) == permitted | doors(cluster, walled, "friend")
    assert cluster.open_doors(walled, "stranger", sorted(permitted | doors(cluster, walled, "friend"))) == set()

    cluster.policy(walled, "out", **client, policyTypes=["Egress"], egress=[to_friend])
    settle(cluster.rig)
    assert cluster.open_doors(walled, "client", everything) == doors(cluster, walled, "friend")
