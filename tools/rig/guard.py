"""The guard: no new connection from or to a pod before kube-router has judged it.

kube-router acts only after the API server knows a pod's address, so a new pod would talk to anybody for its first
100 ms, and longer when many start at once. The guard drops what begins before that: a packet that is dropped is sent
again a second later, where a refusal would be final. kube-router's own mark on packets is not enough: it says that one
of both ends was judged. So the guard keeps the addresses that kube-router has rules for; restore.py tells it.
"""

BRIDGE = "cni0"
"""Of all pods; packets between two of them show it on both sides, by br_netfilter."""

TABLE = "rig-guard"
NEIGHBOURS = "nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, nd-router-advert, mld2-listener-report"
"""IPv6's way to find a link-layer address, as ARP is for IPv4, which no rule here sees either."""


def rules() -> str:
    """Return the guard as text for nft; it begins with nobody judged."""
    return f"""\
table inet {TABLE} {{
  set judged4 {{ type ipv4_addr; }}
  set judged6 {{ type ipv6_addr; }}
  chain forwarded {{
    type filter hook forward priority filter + 10; policy accept;
    ct state established,related accept
    icmpv6 type {{ {NEIGHBOURS} }} accept
    iifname "{BRIDGE}" ip saddr != @judged4 drop
    iifname "{BRIDGE}" ip6 saddr != @judged6 drop
    oifname "{BRIDGE}" ip daddr != @judged4 drop
    oifname "{BRIDGE}" ip6 daddr != @judged6 drop
  }}
  chain arriving {{
    type filter hook input priority filter + 10; policy accept;
    ct state established,related accept
    icmpv6 type {{ {NEIGHBOURS} }} accept
    iifname "{BRIDGE}" ip saddr != @judged4 drop
    iifname "{BRIDGE}" ip6 saddr != @judged6 drop
  }}
}}
"""
