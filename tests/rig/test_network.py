"""Addresses of rigs."""

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

import pytest

from tools.rig import RigError, node
from tools.rig.network import POOLS, Network, free_network, overlap
from tools.rig.node import NODE_DEVICE, firewall, setup_commands

BLOCKS = [IPv4Network(pool) for pool in POOLS]


def test_rigs_never_share_addresses() -> None:
    """However many rigs there are, their addresses are private and disjoint."""
    taken: list[IPv4Network] = []
    for _ in range(60):
        taken.append(free_network(taken).block)

    assert all(block.is_private or block.subnet_of(IPv4Network("100.64.0.0/10")) for block in taken)
    assert not any(a.overlaps(b) for index, a in enumerate(taken) for b in taken[:index])


def test_a_network_that_the_host_routes_is_left_alone() -> None:
    """A VPN that takes all of 10/8 moves rigs elsewhere."""
    assert not free_network([IPv4Network("10.0.0.0/8")]).block.overlaps(IPv4Network("10.0.0.0/8"))


def test_no_free_network_is_said() -> None:
    """Where every pool is taken, the refusal names the pools."""
    with pytest.raises(RigError, match=r"10\.128\.0\.0/9"):
        free_network(BLOCKS)


def test_parts_of_a_network_are_disjoint_and_inside() -> None:
    """Pods, Services and the link to the host never overlap; the fixed addresses lie where they belong."""
    network = Network(IPv4Network("10.128.0.0/16"))
    parts = [network.pods, network.services, network.nodes]

    assert all(part.subnet_of(network.block) for part in parts)
    assert not any(a.overlaps(b) for index, a in enumerate(parts) for b in parts[:index])
    assert {network.host_ip, network.node_ip} == set(network.nodes.hosts())
    assert network.dns_ip in network.services
    assert network.api_ip == next(network.services.hosts())


def test_both_families_are_cut_alike() -> None:
    """With IPv6 there are as many ranges again, private, disjoint, and other ones for each rig."""
    network, other = (Network(IPv4Network(block), ipv6=True) for block in ("10.128.0.0/16", "10.129.0.0/16"))
    six = [one for one in network.ranges if isinstance(one, IPv6Network)]

    assert len(network.ranges) == 6
    assert len(Network(network.block).ranges) == 3
    assert all(one.is_private and overlap(one, network.blocks[1]) for one in six)
    assert not any(overlap(a, b) for index, a in enumerate(network.ranges) for b in network.ranges[:index])
    assert not any(overlap(a, b) for a in network.blocks for b in other.blocks)
    assert network.nodes6
    assert network.node_ip6 in network.nodes6


def test_an_ipv6_network_that_the_host_routes_is_left_alone() -> None:
    """A block is taken only when its IPv6 part is free too."""
    first = free_network([], ipv6=True)

    assert free_network([first.blocks[1]], ipv6=True).block != first.block
    assert free_network([first.blocks[1]]).block == first.block


def test_without_ipv6_in_the_kernel_none_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On such a kernel even the switch that turns IPv6 off is missing."""
    monkeypatch.setattr(node, "KNOWS_IPV6", tmp_path / "missing")

    assert "ipv6" not in str(setup_commands(Network(IPv4Network("10.128.0.0/16"))))


def test_nothing_begins_a_way_out() -> None:
    """No default route, no masquerading; what the rig begins towards the host is refused, forwarded or its own."""
    network = Network(IPv4Network("10.128.0.0/16"))
    text = firewall(network)

    assert not any("default" in command for command in setup_commands(network))
    assert "masquerade" not in text
    assert text.count(f'oifname "{NODE_DEVICE}" ct state new,invalid,untracked reject') == 2
    assert f"ip saddr != {network.host_ip} drop" in text
    assert f'iifname "{NODE_DEVICE}" meta nfproto ipv6 drop' in text
