"""The node's network: its link to the host, addresses, sysctls and firewall."""

import subprocess
from pathlib import Path

from tools.rig.errors import RigError
from tools.rig.network import KNOWS_IPV6, Network

NODE_DEVICE = "node"
"""The rig's end of its link to the host. It carries the node address, which needs no `dummy` device that way."""

SYSCTLS = {
    "ipv4/ip_forward": 1,
    "ipv4/icmp_ratelimit": 0,
    "bridge/bridge-nf-call-iptables": 1,
}
"""Of the rig's own network namespace: without the limit a refusal is always heard at once; the last shows pod-to-pod
packets on the bridge to NetworkPolicy."""

WITHOUT_IPV6 = {"ipv6/conf/all/disable_ipv6": 1, "ipv6/conf/default/disable_ipv6": 1}

SYSCTLS_IPV6 = {
    "ipv6/conf/all/disable_ipv6": 0,
    "ipv6/conf/default/disable_ipv6": 0,
    "ipv6/conf/default/accept_ra": 0,
    f"ipv6/conf/{NODE_DEVICE}/accept_ra": 0,
    f"ipv6/conf/{NODE_DEVICE}/addr_gen_mode": 1,  # none: a link-local address would be a second way to the host
    "ipv6/conf/all/forwarding": 1,
    "ipv6/icmp/ratelimit": 0,
    "bridge/bridge-nf-call-ip6tables": 1,
}


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
    sysctls = SYSCTLS | (SYSCTLS_IPV6 if network.ipv6 else WITHOUT_IPV6 if KNOWS_IPV6.exists() else {})
    return [
        *(["sh", "-c", f"echo {value} > /proc/sys/net/{key}"] for key, value in sysctls.items()),
        ["ip", "link", "set", "lo", "up"],
        ["ip", "address", "add", f"{network.node_ip}/30", "dev", NODE_DEVICE],
        ["ip", "link", "set", NODE_DEVICE, "up"],
        # Processes of the node need some route to Service addresses before kube-proxy turns the packet round.
        ["ip", "route", "add", str(network.services), "dev", NODE_DEVICE],
        *([["ip", "address", "add", f"{network.node_ip6}/126", "dev", NODE_DEVICE, "nodad"]] if network.ipv6 else []),
        *([["ip", "-6", "route", "add", str(network.services6), "dev", NODE_DEVICE]] if network.ipv6 else []),
        ["nft", "-f", "/var/lib/rig/firewall.nft"],
        ["nft", "-f", "/var/lib/rig/guard.nft"],
    ]


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


def _ip(*argv: str) -> None:
    done = subprocess.run(["ip", *argv], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RigError(f"`ip {' '.join(argv)}` failed: {done.stderr.strip()}")
