"""Test hosts."""

import json
import subprocess
import sys
from ipaddress import ip_address

import pytest

from tests.rig.cluster import Cluster
from tools.rig import RigError, outside
from tools.rig.outside import commands

MANY = [f"203.0.113.{number}" for number in range(1, 91)]

ASK = """
import json, socket, sys
def ask(kind, address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as one:
        one.settimeout(5)
        one.connect((address, port))
        if kind == "udp":
            one.send(b"question")
        return one.recv(100).decode().strip()
print(json.dumps([ask(*door) for door in json.loads(sys.argv[1])]))
"""
FLOOD = """
import json, socket
from concurrent.futures import ThreadPoolExecutor
def ask(number):
    with socket.create_connection((f"203.0.113.{number % 90 + 1}", 80), timeout=20) as one:
        return one.recv(100) == b"outside\\n"
with ThreadPoolExecutor(64) as many:
    print(json.dumps(sum(many.map(ask, range(3000)))))
"""


class Recorder:
    """A rig that only remembers what it was asked to run, and fails where told."""

    def __init__(self, fails: str = "") -> None:
        self.ran: list[str] = []
        self.fails = fails

    def exec(self, *argv: str, check: bool = True) -> None:
        """Remember a command."""
        self.ran.append(" ".join(argv))
        if check and self.fails and self.fails in self.ran[-1]:
            raise subprocess.CalledProcessError(2, argv, stderr="RTNETLINK: no\n")


def answers(cluster: Cluster, doors: list[tuple[str, str, int]]) -> list[str]:
    """Return what hosts say to the node."""
    return list(json.loads(cluster.rig.exec(sys.executable, "-c", ASK, json.dumps(doors)).stdout))


def test_hosts_outside_go_away_again() -> None:
    """Test hosts are removed after the test, and also when they could not be made whole; the reason is said."""
    rig = Recorder()
    with outside(rig, "203.0.113.7"):
        assert "ip -4 route add 203.0.113.7/32 via 169.254.254.2" in rig.ran[1]
    assert "ip netns delete outside" in rig.ran[-1]

    broken = Recorder(fails="route add 203")
    with pytest.raises(RigError, match="could not be made: RTNETLINK: no"), outside(broken, "203.0.113.7"):
        pass
    assert "ip netns delete outside" in broken.ran[-1]


def test_a_host_outside_has_no_default_route_of_the_rig() -> None:
    """Only the named addresses become reachable."""
    made = commands([ip_address("203.0.113.7"), ip_address("2001:db8::7")])

    assert not [command for command in made if "default" in command and command[1] != "-netns"]


@pytest.mark.parametrize("text", ["example.org", "224.0.0.1", "127.0.0.1", "ff02::1", "::", "255.255.255.255"])
def test_what_can_be_no_host_is_refused(text: str) -> None:
    """A name, and addresses that name this machine, nobody or many, are refused before anything is made."""
    rig = Recorder()
    with pytest.raises(RigError, match=text), outside(rig, text):
        pass
    assert not rig.ran


def test_many_hosts_answer_on_many_ports(cluster: Cluster) -> None:
    """Ninety addresses, several ports, TCP and UDP: each answers, and from the address that was asked."""
    kinds = [("tcp", 80), ("tcp", 443), ("udp", 53), ("udp", 443)]
    with outside(cluster.rig, *MANY, ports=(80, 443), udp_ports=(53, 443)):
        found = answers(cluster, [(kind, address, port) for address in MANY for kind, port in kinds])

    assert found == ["outside"] * len(MANY) * len(kinds)


def test_hosts_of_ipv6_answer(cluster: Cluster) -> None:
    """Where the rig has IPv6, so have the hosts; else the refusal says what is missing."""
    hosts = ("2001:db8::7", "fd00:ec2::254", "64:ff9b::a00:1")
    doors = [(kind, host, 53) for host in hosts for kind in ("tcp", "udp")]
    if not cluster.rig.network.ipv6:
        with pytest.raises(RigError), outside(cluster.rig, *hosts):
            pass
        return
    with outside(cluster.rig, *hosts, "203.0.113.7", ports=(53,), udp_ports=(53,)):
        assert answers(cluster, [*doors, ("udp", "203.0.113.7", 53)]) == ["outside"] * 7


def test_thousands_of_connections_are_answered(cluster: Cluster) -> None:
    """Three thousand connections, sixty-four at a time, all get their word."""
    with outside(cluster.rig, *MANY):
        assert json.loads(cluster.rig.exec(sys.executable, "-c", FLOOD).stdout) == 3000


def test_hosts_that_a_killed_test_left_are_replaced(cluster: Cluster) -> None:
    """Whoever comes next starts afresh."""
    cluster.rig.exec("ip", "netns", "add", "outside")
    with outside(cluster.rig, "203.0.113.7"):
        assert answers(cluster, [("tcp", "203.0.113.7", 80)]) == ["outside"]
