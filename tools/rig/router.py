"""What stands between kube-router and the kernel: restore.py, which tells the guard, and what 2.1.0 lacks for IPv6.

2.1.0 is the only version that the Go module proxy serves. Beside restore.py's, its faults with two families are: at
every sync it reads the IP sets of both families and writes the other family's back as they were before; and it lets
policies forbid neighbour discovery, so that a pod with one has no IPv6 at all.
"""

import os
import sys
from pathlib import Path

RESTORE = Path(__file__).with_name("restore.py")

IPSET = """\
#!/bin/sh
# Of what kube-router saves it needs nothing: it makes every set of its policies anew at each sync. Sets of policies
# that are gone stay, at some hundred bytes each.
[ "$1" != save ] || exit 0
PATH=${PATH#*:} # the first folder is the one that holds this
exec ipset "$@"
"""

PROGRAMS = {"iptables-restore": "restore.py", "ip6tables-restore": "restore.py", "ipset": "ipset.sh"}
"""What kube-router finds under these names."""

CHAINS = ("KUBE-ROUTER-INPUT", "KUBE-ROUTER-FORWARD", "KUBE-ROUTER-OUTPUT")
NEIGHBOUR_KINDS = (133, 134, 135, 136)
"""ICMPv6 types of router and neighbour discovery; kube-router keeps rules that are in its chains before its own."""


def files() -> dict[str, str]:
    """Return the programs by file name; restore.py for the interpreter that runs now, outside of any environment."""
    interpreter = os.path.realpath(sys.executable)
    return {"restore.py": f"#!{interpreter} -ISB\n{RESTORE.read_text()}", "ipset.sh": IPSET}


def setup_commands(inside: str, programs: str, *, ipv6: bool) -> list[list[str]]:
    """Return the commands that put the files in *inside* before those that kube-router of *programs* would run."""
    return [
        *(["ln", "-s", f"{inside}/{file}", f"{programs}/{name}"] for name, file in PROGRAMS.items()),
        *(command for chain in CHAINS if ipv6 for command in _discovery(chain)),
    ]


def _discovery(chain: str) -> list[list[str]]:
    rules = [["-p", "ipv6-icmp", "-m", "icmp6", "--icmpv6-type", str(kind)] for kind in NEIGHBOUR_KINDS]
    change = ["ip6tables", "-w", "5"]
    return [[*change, "-N", chain], *([*change, "-A", chain, *rule, "-j", "ACCEPT"] for rule in rules)]
