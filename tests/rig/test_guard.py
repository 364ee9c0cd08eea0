"""No new connection before kube-router has judged the pod."""

from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from tests.rig.cluster import Cluster, Door, knock
from tools.rig import enforcement, guard, outside, restore, settle

HOSTS = ("203.0.113.7", "2001:db8::7")
CROWD = [f"pod-{number}" for number in range(20)]
"""At once: kube-router then needs several syncs, and reads pods in the middle of one."""

OPEN = """\
-A KUBE-ROUTER-INPUT -s 10.0.0.5/32 -m comment --comment "rule for POD name:a namespace: x" -j KUBE-POD-FW-AAAA
-I KUBE-POD-FW-AAAA 1 -s 10.0.0.5 -m comment --comment "run through default egress" -j KUBE-NWPLCY-DEFAULT
"""
CLOSED = """\
-A KUBE-ROUTER-INPUT -m comment --comment "rule for POD name:b namespace: x" -s fd00::5 -j KUBE-POD-FW-BBBB
-I KUBE-POD-FW-BBBB 1 -m comment --comment "run through nw policy deny" -j KUBE-NWPLCY-CCCC
"""


def test_rules_say_which_pods_policies_select() -> None:
    """Addresses are read from rules as kube-router writes them and as iptables-save does; others' rules say nothing."""
    noise = "-A KUBE-ROUTER-INPUT -d 10.96.0.0/12 -j RETURN\n-A INPUT -s 10.0.0.9/32 -j ACCEPT\n"

    assert restore.pods(noise + OPEN + CLOSED) == {"10.0.0.5": False, "fd00::5": True}


def test_a_pod_that_no_policy_selects_is_judged_when_a_second_sync_says_so() -> None:
    """In the sync that finds a pod half way, the pod's policies may be missing."""
    assert restore.judged({"10.0.0.5": False, "10.0.0.6": True}, set()) == {"10.0.0.6"}
    assert restore.judged({"10.0.0.5": False, "10.0.0.6": True}, {"10.0.0.5"}) == {"10.0.0.5", "10.0.0.6"}


def test_rules_name_the_ip_sets_that_exist() -> None:
    """kube-router 2.1.0 gives IPv6's IP sets a prefix and leaves it out of its rules, which are then refused whole."""
    rules = "-A KUBE-NWPLCY-A -m set --match-set KUBE-DST-B dst -j RETURN\n"

    assert "--match-set inet6:KUBE-DST-B dst" in restore.named(rules, "6")
    assert restore.named(restore.named(rules, "6"), "6") == restore.named(rules, "6")
    assert restore.named(rules, "4") == rules


def test_a_pod_without_rules_is_not_judged_any_more() -> None:
    """The guard forgets pods that are gone: their addresses come back with other pods."""
    assert restore.judged({}, {"10.0.0.5"}) == set()
    assert restore.elements("4", set()) == f"flush set inet {guard.TABLE} judged4\n"


@pytest.fixture
def doors(cluster: Cluster) -> Iterator[list[Door]]:
    """Give doors that are open to whom no policy forbids them: outside, a pod, DNS, API server and kubelet."""
    net = cluster.rig.network
    hosts = HOSTS if net.ipv6 else HOSTS[:1]
    pods = cluster.addresses("kube-system", "--selector=k8s-app=kube-dns")
    assert len(pods) == len(hosts)
    with outside(cluster.rig, *hosts):
        services = [(str(net.dns_ip), 53), (str(net.api_ip), 443), (str(net.node_ip), 10250)]
        yield [*((host, 80) for host in hosts), *((pod, 53) for pod in pods), *services]


@pytest.fixture
def denied(cluster: Cluster) -> Iterator[str]:
    """Give a namespace whose pods may do nothing."""
    yield cluster.namespace("denied", denied=True)
    cluster.remove("denied")


@pytest.fixture
def free(cluster: Cluster) -> Iterator[str]:
    """Give a namespace without policies."""
    yield cluster.namespace("free")
    cluster.remove("free")


def test_new_pods_reach_nobody_however_early_they_knock(cluster: Cluster, denied: str, doors: list[Door]) -> None:
    """Many pods that may do nothing start at once and knock from their first instruction: no door opens."""
    cluster.start(denied, CROWD, *knock(3, doors))
    found = cluster.knocks(denied, CROWD)

    assert set(found) == set(doors)
    assert all(one.tries > 1 for many in found.values() for one in many)
    assert not {door: many for door, many in found.items() if any(one.reached for one in many)}


def test_without_the_guard_they_do(cluster: Cluster, denied: str, doors: list[Door]) -> None:
    """It is the guard that closes the window, not luck; the policy closes the doors a little later."""
    for chain in ("forwarded", "arriving"):
        cluster.rig.exec("nft", "flush", "chain", "inet", guard.TABLE, chain)
    try:
        cluster.start(denied, CROWD[:5], *knock(15, doors))
        found = cluster.knocks(denied, CROWD[:5])
    finally:
        enforcement.put_back(cluster.rig)

    assert all(any(one.reached for one in many) for many in found.values())
    assert all(one.last < 12_000 for many in found.values() for one in many)


def test_a_pod_that_no_policy_selects_reaches_all(cluster: Cluster, free: str, doors: list[Door]) -> None:
    """The guard holds up who is new, and nobody else: addresses, Services, the node and the kubelet's probes work."""
    probe = {"tcpSocket": {"port": 80}, "periodSeconds": 1}
    cluster.start(free, ["door"], "60", "listen", "80", readinessProbe=probe)
    cluster.service(free, "door")
    settle(cluster.rig)
    doors += [(address, 80) for address in (*cluster.ready(free, "door"), *cluster.services(free, "door"))]
    cluster.start(free, ["guest"], *knock(15, doors))
    found = cluster.knocks(free, ["guest"])

    assert all(one.reached for (one,) in found.values())
    assert all(one.last > 12_000 for (one,) in found.values())


def test_nobody_reaches_a_new_pod(cluster: Cluster, denied: str, free: str) -> None:
    """A pod that may not be reached is not, from its first instruction on, also not by a pod that may do anything."""
    doors = [(address, 80) for address in next_addresses(cluster, 10)]
    cluster.start(free, ["guest"], *knock(12, doors))
    cluster.ready(free, "guest")
    cluster.start(denied, CROWD[:8], "20", "listen", "80", readinessProbe={"tcpSocket": {"port": 80}})
    addresses = {address for name in CROWD[:8] for address in cluster.ready(denied, name)}
    found = cluster.knocks(free, ["guest"])

    assert addresses <= {address for address, _ in found}
    assert not {door for door, (one,) in found.items() if one.reached}


def next_addresses(cluster: Cluster, count: int) -> list[str]:
    """Return the addresses that the next pods but one will have, in each family: they are given out in order."""
    found = []
    for family, pods in enumerate(cluster.rig.network.ranges[::3]):
        file = f"/var/lib/cni/networks/rig/last_reserved_ip.{family}"
        last = ip_address(cluster.rig.exec("cat", file).stdout.strip())
        assert last in pods
        found += [str(last + step) for step in range(2, 2 + count)]
    return found
