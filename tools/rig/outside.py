"""Test hosts: addresses of a make-believe outside world, in a network namespace within the rig.

A rig has no way out, so a test that asks what a pod may reach brings the hosts along. They go with the rig.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from typing import Protocol

from tools.rig.errors import RigError

SPACE = "outside"
DEVICE = "outside"
LINK = ("169.254.254.1", "169.254.254.2")
"""The rig's and the hosts' end of the link: link-local, so that it is no address that a test would ask about."""

SERVER = "/bin/busybox nc -ll -p {port} -e /bin/echo outside"
"""Answers each connection to any of the addresses with one word."""

START_TRIES = 50
"""Of 0.1 s each: the server listens at once, except on a very busy machine."""


class Runner(Protocol):
    """What a rig offers: run a command in its namespaces."""

    def exec(self, *argv: str, check: bool = True) -> object:
        """Run *argv*; raise when it fails."""


@contextmanager
def outside(rig: Runner, *addresses: str, port: int = 80) -> Iterator[None]:
    """Let pods of *rig* find TCP servers at *addresses*, where no policy forbids it; each says `outside`.

    Raises RigError when an address is none or the hosts could not be made.
    """
    hosts = [_address(address) for address in addresses]
    try:
        for command in (*commands(hosts), _serve(port)):
            rig.exec(*command)
        yield
    finally:
        # The processes in it first: they would keep a namespace without a name alive.
        rig.exec("sh", "-c", f"ip netns pids {SPACE} | xargs -r kill -9; ip netns delete {SPACE}", check=False)


def commands(hosts: list[IPv4Address]) -> list[list[str]]:
    """Return the commands that make the namespace, its link and its addresses."""
    own, theirs = LINK
    inside = ["ip", "-netns", SPACE]
    return [
        ["ip", "netns", "add", SPACE],
        ["ip", "link", "add", DEVICE, "type", "veth", "peer", "name", "eth0", "netns", SPACE],
        ["ip", "address", "add", f"{own}/30", "dev", DEVICE],
        ["ip", "link", "set", DEVICE, "up"],
        [*inside, "address", "add", f"{theirs}/30", "dev", "eth0"],
        [*inside, "link", "set", "lo", "up"],
        [*inside, "link", "set", "eth0", "up"],
        [*inside, "route", "add", "default", "via", own],
        *([*inside, "address", "add", f"{host}/32", "dev", "lo"] for host in hosts),
        *(["ip", "route", "add", f"{host}/32", "via", theirs] for host in hosts),
    ]


def _serve(port: int) -> list[str]:
    server = f"ip netns exec {SPACE} {SERVER.format(port=port)}"
    ready = f"ip netns exec {SPACE} /bin/busybox nc -w 1 127.0.0.1 {port}"
    loop = f"for try in $(seq {START_TRIES}); do {ready} </dev/null >/dev/null 2>&1 && exit 0; sleep 0.1; done; exit 1"
    return ["sh", "-c", f"setsid {server} </dev/null >/dev/null 2>&1 & {loop}"]


def _address(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except ValueError as error:
        raise RigError(f"{text!r} is no IPv4 address for a test host; write it like 203.0.113.7") from error
