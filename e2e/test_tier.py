"""The tunnel servers on a real cluster: they roll, die and come back; who is logged in elsewhere does not notice."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Pod
from status.states import Ssh

from components.dns import DnsSpec
from e2e.netns import pid_in, pid_of, space_of
from e2e.world import BOTH, WITH_PACK, World, attempt, is_ready, wait_until
from tools.rig.outside import LINKS, SPACE, outside
from tools.stack.client import ssh, through
from tools.stack.reading import read_file
from tools.status.rows import rows

pytestmark = pytest.mark.e2e

UNIT = "trainer.lab-a"
PLATFORM = "gpu-runtime"
SERVERS = ("frps-0", "frps-1")
CLIENT = "44.12.34.57"
DNS = DnsSpec().namespace


def pods(world: World, server: str, component: str = "frps") -> list[Pod]:
    """List the pods of a tunnel server, or of another part of the tier, that are not about to go."""
    labels: dict[str, Any] = {"app.kubernetes.io/component": component, "app.kubernetes.io/instance": server}
    found = world.cluster.list(Pod, namespace=PLATFORM, labels=labels)
    return [pod for pod in found if pod.metadata and not pod.metadata.deletionTimestamp]


def ready(world: World, server: str) -> bool:
    """Say whether the server's one pod is ready."""
    return [is_ready(pod) for pod in pods(world, server)] == [True]


def both_ready(world: World) -> bool:
    """Say whether both servers are there, each with its units."""
    return all(ready(world, server) for server in SERVERS)


def uid(pod: Pod) -> str:
    """Give the pod's own number."""
    return str(pod.metadata.uid) if pod.metadata else ""


def unit_uid(world: World) -> str:
    """Give the number of the unit's pod."""
    return uid(world.cluster.get(Pod, world.pod("trainer"), namespace="lab-a"))


@contextmanager
def session_through(world: World, server: str) -> Iterator["subprocess.Popen[str]"]:
    """Log in through one server, from within its pod's network, as soon as it has the unit, and echo lines."""
    (pod,) = pods(world, server)
    enter = f"nsenter --net={space_of(pid_of(uid(pod)))}"
    proxy = f"ProxyCommand={enter} {through('127.0.0.1', 1337)['ProxyCommand']}"
    argv = ["ssh", "-F", str(world.workspace.ssh_config), "-o", "BatchMode=yes", "-o", proxy, UNIT, "cat"]
    trial = [*argv[:-1], "true"]
    wait_until(lambda: subprocess.run(trial, capture_output=True, check=False).returncode == 0, f"{server}'s units")
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert echoes(process), f"no session through {server}"
            yield process
        finally:
            process.kill()


def echoes(process: "subprocess.Popen[str]") -> bool:
    """Say whether a line comes back."""
    assert process.stdin
    assert process.stdout
    try:
        process.stdin.write("still here\n")
        process.stdin.flush()
        return process.stdout.readline() == "still here\n"
    except OSError:
        return False


@contextmanager
def logging_in(world: World) -> Iterator[list[str]]:
    """Log in again and again beside what the caller does; give what the logins that failed said."""
    failed: list[str] = []
    over = threading.Event()

    def again() -> None:
        while not over.is_set():
            done = ssh(world.workspace, UNIT, "true")
            if done.returncode:
                failed.append(f"{time.strftime('%X')} {done.returncode} {done.stderr}")
            over.wait(0.3)

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield failed
    finally:
        over.set()
        thread.join()


def limits(config: dict[str, Any]) -> None:
    """Change what a server reads only when it starts."""
    config["gpu-runtime:platform"]["ssh"]["limits"] = {"perUnit": 99}


def test_servers_roll_one_by_one_and_logins_go_on(world: World) -> None:
    """A change rolls both servers: each is ready, with its units, before the next goes; nobody is turned away.

    A session through one goes on while it drains. The unit's pod stays. The preview says what is replaced.
    """
    before = {server: uid(pods(world, server)[0]) for server in SERVERS}
    unit = unit_uid(world)
    with world.changed(limits), session_through(world, "frps-0") as session:
        status, said = attempt(world.engine(), "preview", *WITH_PACK)
        assert status == 0, said
        assert "tunnel server frps-0 is replaced" in said
        with logging_in(world) as failed:
            with ThreadPoolExecutor(1) as pool:
                rolling = pool.submit(attempt, world.engine(), "up", "--yes", *WITH_PACK)
                while before["frps-0"] in map(uid, pods(world, "frps-0")) and not rolling.done():
                    time.sleep(0.2)
                assert not rolling.done()
                assert echoes(session)
            status, said = rolling.result()
        assert status == 0, said
        assert failed == []
        after = {server: uid(pods(world, server)[0]) for server in before}
        assert not set(after.values()) & set(before.values())
        wait_until(lambda: both_ready(world), "both servers")
        assert unit_uid(world) == unit


def test_a_killed_server_takes_its_own_sessions_alone(world: World) -> None:
    """A server that dies at once: sessions through the other live, new logins work, and it returns with its units."""
    wait_until(lambda: both_ready(world), "both servers")
    with session_through(world, "frps-1") as other:
        (pod,) = pods(world, "frps-0")
        name = str(pod.metadata.name) if pod.metadata else ""
        world.cluster.delete(Pod, name, namespace=PLATFORM, grace_period=0)
        assert echoes(other)
        wait_until(lambda: world.comes_in(UNIT), "a login")
        wait_until(lambda: ready(world, "frps-0"), "the server to return")
        assert echoes(other)
        with session_through(world, "frps-0") as returned:
            assert echoes(returned)


def test_the_entrance_says_who_came(world: World) -> None:
    """Who logs in from far away has that address in the entrance's lines, by a name that the gate tells, too."""
    unit = world.engine().outputs()["units"][UNIT]
    with outside(world.rig, CLIENT):
        world.rig.exec("ip", "-netns", SPACE, *f"route replace default via {LINKS[4][0]} dev eth0 src {CLIENT}".split())
        space = int(world.rig.exec("stat", "-Lc", "%i", f"/run/netns/{SPACE}").stdout)
        enter = f"nsenter --net={space_of(pid_in(space))}"
        command = through(unit["connect"]["host"], unit["connect"]["port"])["ProxyCommand"]
        argv = ["ssh", "-F", str(world.workspace.ssh_config), "-oBatchMode=yes", f"-oProxyCommand={enter} {command}"]
        wait_until(lambda: both_ready(world) and world.comes_in(UNIT, BOTH), "both servers to let people in")
        assert subprocess.run([*argv, UNIT, "true"], check=False, stdin=subprocess.DEVNULL).returncode == 0
    wait_until(lambda: any(said_of_client(world, server, "end") for server in SERVERS), "its end to be told")
    (server,) = [server for server in SERVERS if said_of_client(world, server, "end")]
    (began,), (ended,) = said_of_client(world, server, "session"), said_of_client(world, server, "end")
    gate = [
        one for pod in pods(world, "gate", "gate") for one in lines(world, pod, "gate") if one["event"] == "session"
    ]

    assert (began["host"], began["client"], began["frps"]) == (unit["host"], ended["client"], ended["frps"])
    assert unit["host"] in {one["host"] for one in gate if one["client"] == ended["frps"]}


def said_of_client(world: World, server: str, event: str) -> list[dict[str, Any]]:
    """Read what a server's entrance says of CLIENT."""
    (pod,) = pods(world, server)
    found = [one for one in lines(world, pod, "entrance") if one["event"] == event]
    return [one for one in found if one["client"].rpartition(":")[0] == CLIENT]


def lines(world: World, pod: Pod, container: str) -> list[dict[str, Any]]:
    """Read the log of a container of the tier."""
    name = str(pod.metadata.name) if pod.metadata else ""
    said = world.cluster.log(name, namespace=PLATFORM, container=container)
    return [json.loads(line) for line in said if line.startswith("{")]


def test_another_number_of_servers_restarts_no_unit(world: World) -> None:
    """A third server comes and is ready with the unit on it; it goes, and nothing but it notices."""
    unit = unit_uid(world)

    def three(config: dict[str, Any]) -> None:
        config["gpu-runtime:platform"]["ssh"]["replicas"] = 3

    with world.changed(three), logging_in(world) as failed:
        status, said = attempt(world.engine(), "up", "--yes", *WITH_PACK)
        assert status == 0, said
        assert ready(world, "frps-2")
        with session_through(world, "frps-2") as session:
            assert echoes(session)
    assert failed == []
    status, said = attempt(world.engine(), "up", "--yes", *WITH_PACK)
    assert status == 0, said
    names = {one.metadata.name for one in world.cluster.list(Deployment, namespace=PLATFORM) if one.metadata}
    assert "frps-2" not in names
    assert unit_uid(world) == unit


@contextmanager
def without_dns(world: World) -> Iterator[None]:
    """Take every pod of cluster DNS away for a while."""
    servers = world.cluster.get(Deployment, "coredns", namespace=DNS)
    before = servers.spec.replicas

    def pods_of_dns() -> list[Pod]:
        return list(world.cluster.list(Pod, namespace=DNS, labels=dict(DnsSpec().selector)))

    try:
        world.cluster.patch(Deployment, "coredns", {"spec": {"replicas": 0}}, namespace=DNS)
        wait_until(lambda: not pods_of_dns(), "cluster DNS to be gone")
        yield
    finally:
        world.cluster.patch(Deployment, "coredns", {"spec": {"replicas": before or 1}}, namespace=DNS)
        wait_until(lambda: resolves(world), "cluster DNS to answer again")


def resolves(world: World) -> bool:
    """Say whether a name is found in a unit."""
    look = "import socket; socket.getaddrinfo('kubernetes.default.svc', 443)"
    return ssh(world.workspace, UNIT, f'timeout 10 python3 -c "{look}"').returncode == 0


def test_without_dns_people_work_and_log_in(world: World) -> None:
    """Cluster DNS is gone: sessions through each server live, one login after the other works, and status is true.

    A server that is killed meanwhile comes back and has its units.
    """
    wait_until(lambda: both_ready(world), "both servers")
    assert resolves(world)
    with session_through(world, "frps-0") as first, session_through(world, "frps-1") as second, without_dns(world):
        assert not resolves(world)
        assert world.comes_in(UNIT, times=8)  # more than the connections that wait at the servers from before
        assert echoes(first)
        assert echoes(second)
        assert reachable(world)
        (pod,) = pods(world, "frps-1")
        world.cluster.delete(Pod, str(pod.metadata and pod.metadata.name), namespace=PLATFORM, grace_period=0)
        wait_until(lambda: ready(world, "frps-1"), "the server to return")
        with session_through(world, "frps-1") as returned:
            assert echoes(returned)
        assert echoes(first)


def reachable(world: World) -> bool:
    """Say whether `make status` says that a login works."""
    found = rows(world.cluster, read_file(world.workspace.config_file, world.workspace.stack))
    return next(row.state.ssh.state is Ssh.REACHABLE for row in found if row.unit == "trainer")
