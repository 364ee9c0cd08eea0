"""Addresses of a rig: one free private /16 each, cut into pods, Services and the link to the host."""

import ipaddress
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from tools.rig.errors import RigError

POOLS = ("10.128.0.0/9", "172.16.0.0/12", "100.64.0.0/10")
"""Private ranges only: the walls of a stack then treat a rig like any private network. A VPN often takes one whole."""

NODE_DEVICE = "node"
"""The rig's end of its link to the host. It carries the node address, which needs no `dummy` device that way."""


@dataclass(frozen=True)
class Network:
    """Addresses of one rig, all cut from `block`, a /16."""

    block: IPv4Network

    @property
    def pods(self) -> IPv4Network:
        """Return the addresses of pods: 4094, more than the kubelet's limit needs after quick restarts."""
        return IPv4Network((self.block.network_address, 20))

    @property
    def services(self) -> IPv4Network:
        """Return the addresses of Services."""
        return IPv4Network((self.block.network_address + 0x8000, 20))

    @property
    def nodes(self) -> IPv4Network:
        """Return the link between host and node: two usable addresses."""
        return IPv4Network((self.block.broadcast_address - 3, 30))

    @property
    def host_ip(self) -> IPv4Address:
        """Return the host's address on the link."""
        return self.nodes[1]

    @property
    def node_ip(self) -> IPv4Address:
        """Return the node's address, where the host reaches the API server and node ports."""
        return self.nodes[2]

    @property
    def api_ip(self) -> IPv4Address:
        """Return the address of the Service `kubernetes`: always the first."""
        return self.services[1]

    @property
    def dns_ip(self) -> IPv4Address:
        """Return the address of the Service `kube-dns`."""
        return self.services[10]


def free_network(taken: Iterable[IPv4Network]) -> Network:
    """Return the first /16 of the pools that overlaps nothing taken, or raise RigError."""
    used = tuple(taken)
    for pool in POOLS:
        for block in ipaddress.ip_network(pool).subnets(new_prefix=16):
            if isinstance(block, IPv4Network) and not any(block.overlaps(other) for other in used):
                return Network(block)
    raise RigError(f"no /16 of {', '.join(POOLS)} is free of this host's routes and of other rigs; remove one of them")


def host_networks() -> list[IPv4Network]:
    """Return what the host routes or owns already, default routes left out."""
    routes = _ip_json("route", "show", "table", "all")
    addresses = [info for link in _ip_json("address", "show") for info in link.get("addr_info", ())]
    texts = [route["dst"] for route in routes] + [info["local"] for info in addresses if info.get("family") == "inet"]
    return list(_networks(texts))


def connect(link: str, network: Network, pid: int) -> None:
    """Make the veth pair between the host and the network namespace of *pid*, without any default route."""
    _ip("link", "add", link, "type", "veth", "peer", "name", NODE_DEVICE, "netns", str(pid))
    # No IPv6: a link-local address would be a second way between the two.
    switch = Path(f"/proc/sys/net/ipv6/conf/{link}/disable_ipv6")
    if switch.exists():
        switch.write_text("1")
    _ip("address", "add", f"{network.host_ip}/30", "dev", link)
    _ip("link", "set", link, "up")


def disconnect(link: str) -> None:
    """Remove the link where the end of its namespace has not removed it yet."""
    if link_exists(link):
        subprocess.run(["ip", "link", "delete", link], check=False, capture_output=True)


def link_exists(link: str) -> bool:
    """Tell whether the host still has that device."""
    return Path(f"/sys/class/net/{link}").exists()


def setup_commands(network: Network) -> list[list[str]]:
    """Return the commands that configure the node's side, run inside the rig's network namespace."""
    return [
        ["ip", "link", "set", "lo", "up"],
        *(["sh", "-c", f"echo {value} > /proc/sys/net/{key}"] for key, value in SYSCTLS.items()),
        ["ip", "address", "add", f"{network.node_ip}/30", "dev", NODE_DEVICE],
        ["ip", "link", "set", NODE_DEVICE, "up"],
        # Processes of the node need some route to Service addresses before kube-proxy turns the packet round.
        ["ip", "route", "add", str(network.services), "dev", NODE_DEVICE],
        ["nft", "-f", "/var/lib/rig/firewall.nft"],
    ]


SYSCTLS = {
    "ipv6/conf/all/disable_ipv6": 1,
    "ipv6/conf/default/disable_ipv6": 1,
    "ipv4/ip_forward": 1,
    "ipv4/icmp_ratelimit": 0,
    "bridge/bridge-nf-call-iptables": 1,
}
"""Of the rig's own network namespace: without the limit a refusal is always heard at once; the last shows pod-to-pod
packets on the bridge to NetworkPolicy."""


def firewall(network: Network) -> str:
    """Return the nft rules of the node: only the host itself comes in over the link, and nothing begins a way out."""
    return f"""\
table inet rig {{
  chain entrance {{
    type filter hook prerouting priority raw; policy accept;
    iifname "{NODE_DEVICE}" ip saddr != {network.host_ip} drop
    iifname "{NODE_DEVICE}" meta nfproto ipv6 drop
  }}
  chain forwarded {{
    type filter hook forward priority filter; policy accept;
    oifname "{NODE_DEVICE}" ct state new,invalid,untracked reject with icmpx type admin-prohibited
  }}
  chain own {{
    type filter hook output priority filter; policy accept;
    oifname "{NODE_DEVICE}" ct state new,invalid,untracked reject with icmpx type admin-prohibited
  }}
}}
"""


def _networks(texts: Iterable[str]) -> Iterator[IPv4Network]:
    for text in texts:
        if text == "default" or ":" in text:
            continue
        yield IPv4Network(text, strict=False)


def _ip(*argv: str) -> None:
    done = subprocess.run(["ip", *argv], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RigError(f"`ip {' '.join(argv)}` failed: {done.stderr.strip()}")


def _ip_json(*argv: str) -> list[dict[str, Any]]:
    done = subprocess.run(["ip", "-4", "-json", *argv], check=True, capture_output=True, text=True)
    found: list[dict[str, Any]] = json.loads(done.stdout or "[]")
    return found
