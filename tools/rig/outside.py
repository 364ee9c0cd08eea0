"""Test hosts: addresses of a make-believe outside world, in a network namespace within the rig.

A rig has no way out, so a test that asks what a pod may reach brings the hosts along. They go with the rig.
"""

import ipaddress
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Protocol

from tools.rig.errors import RigError

SPACE = "outside"
DEVICE = "outside"
LINKS = {4: ("169.254.254.1", "169.254.254.2", 30), 6: ("fe80::fe:1", "fe80::fe:2", 64)}
"""The rig's and the hosts' end of the link: link-local, so that it is no address that a test would ask about."""

ANSWER = Path(__file__).with_name("answer.py")

REMOVAL = f"ip link delete {DEVICE}; ip netns pids {SPACE} | xargs -r kill -9; ip netns delete {SPACE}"
"""The link first, for it else goes some time after the namespace; then the processes that keep the namespace alive."""

Address = IPv4Address | IPv6Address


class Runner(Protocol):
    """What a rig offers: run a command in its namespaces."""

    def exec(self, *argv: str, check: bool = True) -> object:
        """Run *argv*; raise CalledProcessError when it fails."""


@contextmanager
def outside(
    rig: Runner, *addresses: str, ports: Sequence[int] = (80,), udp_ports: Sequence[int] = ()
) -> Iterator[None]:
    """Let pods of *rig* find servers at *addresses*, IPv4 and IPv6, where no policy forbids it; each says `outside`.

    A TCP server says so to whoever connects, a UDP server answers every datagram. A hundred addresses take a second.
    Raises RigError when an address can be no host's or the hosts could not be made.
    """
    hosts = [_address(address) for address in dict.fromkeys(addresses)]
    rig.exec("sh", "-c", REMOVAL, check=False)  # what a killed test left
    try:
        _run(rig, "sh", "-c", "set -e\n" + "\n".join(shlex.join(command) for command in commands(hosts)))
        _run(rig, "ip", "netns", "exec", SPACE, *_server(hosts, ports, udp_ports))
        yield
    finally:
        rig.exec("sh", "-c", REMOVAL, check=False)


def commands(hosts: list[Address]) -> list[list[str]]:
    """Return the commands that make the namespace, its link and its addresses."""
    families = sorted({host.version for host in hosts})
    return [
        ["ip", "netns", "add", SPACE],
        ["ip", "link", "add", DEVICE, "type", "veth", "peer", "name", "eth0", "netns", SPACE],
        ["ip", "link", "set", DEVICE, "up"],
        ["ip", "-netns", SPACE, "link", "set", "lo", "up"],
        ["ip", "-netns", SPACE, "link", "set", "eth0", "up"],
        *(command for family in families for command in _link(family)),
        *(command for host in hosts for command in _host(host)),
    ]


def _link(family: int) -> list[list[str]]:
    own, theirs, length = LINKS[family]
    inside, flags = ["ip", "-netns", SPACE], ["nodad"] if family == 6 else []  # noqa: PLR2004  # IP's own number
    return [
        ["ip", "address", "add", f"{own}/{length}", "dev", DEVICE, *flags],
        [*inside, "address", "add", f"{theirs}/{length}", "dev", "eth0", *flags],
        [*inside, f"-{family}", "route", "add", "default", "via", own, "dev", "eth0"],
    ]


def _host(host: Address) -> list[list[str]]:
    flags = ["nodad"] if isinstance(host, IPv6Address) else []
    whole = f"{host}/{host.max_prefixlen}"
    return [
        ["ip", "-netns", SPACE, "address", "add", whole, "dev", "lo", *flags],
        ["ip", f"-{host.version}", "route", "add", whole, "via", LINKS[host.version][1], "dev", DEVICE],
    ]


def _server(hosts: list[Address], ports: Sequence[int], udp_ports: Sequence[int]) -> list[str]:
    """Return the command of answer.py, its text included: the rig may not see where that file lies."""
    words = [*map(str, hosts), "tcp", *map(str, ports), "udp", *map(str, udp_ports)]
    return [os.path.realpath(sys.executable), "-ISBc", ANSWER.read_text(), *words]


def _run(rig: Runner, *argv: str) -> None:
    try:
        rig.exec(*argv)
    except subprocess.CalledProcessError as error:
        why = str(error.stderr or "").strip().splitlines()[-1:] or ["it said nothing"]
        raise RigError(f"the test hosts could not be made: {why[0]}") from error


def _address(text: str) -> Address:
    try:
        found = ipaddress.ip_address(text)
    except ValueError as error:
        raise RigError(f"{text!r} is no address for a test host; write it like 203.0.113.7 or 2001:db8::7") from error
    if found.is_multicast or found.is_loopback or found.is_unspecified or str(found) == "255.255.255.255":
        raise RigError(f"{text} can be no host's address: packets to it never leave a pod as to one host")
    return found
