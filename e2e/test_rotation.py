"""Secrets, servers and addresses change under a unit at work: its pod stays, its users come in again at once.

The tests run in this order on one stack; each goes on from what the one before left.
"""

import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from lightkube.resources.core_v1 import Pod
from tunnel.retry import LONGEST_WAIT

from e2e.conftest import made, on_a_fresh_rig, told_on_failure
from e2e.test_main_job import gate_log
from e2e.test_tier import SERVERS, UNIT, echoes, logging_in, pods, session_through, uid
from e2e.world import WITH_PACK, Config, World, attempt, rolled_out, wait_until
from tools.stack.client import ssh, write_client_files
from tools.stack.workspace import replace

pytestmark = pytest.mark.e2e

SOON = 20.0
"""Seconds from the end of `up` within which a unit answers as `up` says: far from the 60 of a kubelet nobody told."""

SECRET, PREVIOUS = "gpu-runtime:secret", "gpu-runtime:previousSecret"
OTHER_PORT = 31345


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a stack of these tests' own, up."""
    with on_a_fresh_rig(tmp_path_factory.mktemp("rotation"), "rotation") as bare:
        yield made(bare)


tell_on_failure = told_on_failure("world")


def unit(world: World) -> tuple[str, int]:
    """Give the uid of the unit's pod, and how often its containers were started again."""
    pod = world.cluster.get(Pod, world.pod("trainer"), namespace="lab-a")
    statuses = (pod.status.containerStatuses if pod.status else None) or []
    return uid(pod), sum(status.restartCount for status in statuses)


def up(world: World) -> float:
    """Run a bare `pulumi up`; give when it ended."""
    status, said = attempt(world.engine(), "up", "--yes", *WITH_PACK)
    ended = time.monotonic()
    assert status == 0, said
    assert "could not be told" not in said
    return ended


def comes_in_soon(world: World, ended: float, soon: float = SOON) -> None:
    """Log in with what the `up` hands out that was over at *ended*."""
    write_client_files(world.workspace, world.engine().outputs())
    while not world.comes_in(UNIT):
        assert time.monotonic() - ended < soon, ssh(world.workspace, UNIT, "true").stderr


def pinned(world: World) -> str:
    """Give the host key that users are handed."""
    return str(world.engine().outputs()["units"][UNIT]["hostKey"])


@contextmanager
def any_host_key(world: World) -> Iterator[None]:
    """Let users take whatever host key they are shown, while it changes."""
    text = world.workspace.ssh_config.read_text()
    loose = text.replace(f'"{world.workspace.known_hosts}"', "/dev/null").replace("Checking yes", "Checking no")
    replace(world.workspace.ssh_config, loose)
    try:
        yield
    finally:
        replace(world.workspace.ssh_config, text)


def uids(world: World, *servers: str) -> dict[str, str]:
    """Give the uid of each tunnel server's pod."""
    return {server: uid(pods(world, server)[0]) for server in servers}


def gates(world: World) -> list[str]:
    """Give the uids of the gate's pods, once those before them are gone: `up` ends when the new ones are ready."""
    wait_until(lambda: rolled_out(world, "gate"), "the gates of the last rollout to go")
    return sorted(map(uid, pods(world, "gate", "gate")))


def renew(config: Config) -> None:
    """Keep the secret as the previous one; the new one is set by the engine, which encrypts it."""
    config[PREVIOUS] = config[SECRET]


def test_a_new_secret_ends_sessions_server_by_server_and_no_unit(world: World) -> None:
    """Token, authority, certificates, gate's keys and host key change in one `up`; the unit's pod does not notice.

    Logins go on all the while. Sessions end with their server, and not before; the second server goes when the first
    takes sessions again. The preview told what is replaced.
    """
    before, servers, key = unit(world), uids(world, *SERVERS), pinned(world)
    world.edit(renew)
    world.engine().output("config", "set", "--secret", SECRET, stdin=secrets.token_hex(32))
    status, said = attempt(world.engine(), "preview", *WITH_PACK)
    assert status == 0, said
    assert all(f"tunnel server {server} is replaced" in said for server in SERVERS)

    with ExitStack() as opened, any_host_key(world):
        first, second = (opened.enter_context(session_through(world, server)) for server in SERVERS)
        with logging_in(world) as failed, ThreadPoolExecutor(1) as pool:
            rolling = pool.submit(up, world)
            while first.poll() is None:
                assert not rolling.done(), "the session outlived its server"
                time.sleep(0.1)
            assert echoes(second), "the second server went with the first"
            ended = rolling.result()
        assert failed == []
        wait_until(lambda: second.poll() is not None, "the end of the second session")
    assert pinned(world) != key
    comes_in_soon(world, ended)
    assert unit(world) == before
    assert not set(uids(world, *SERVERS).values()) & set(servers.values())


def test_the_old_secret_goes_and_nobody_notices(world: World) -> None:
    """Without `previousSecret` neither unit, gate nor server is replaced, and a session goes on: all have the new one.

    The gate forgets the old key, so that whoever copied a capability of it has nothing.
    """
    before, there = unit(world), (uids(world, *SERVERS), gates(world))
    world.edit(lambda config: config.pop(PREVIOUS))
    with session_through(world, "frps-0") as session:
        ended = up(world)
        comes_in_soon(world, ended)
        assert echoes(session)
    assert unit(world) == before
    assert (uids(world, *SERVERS), gates(world)) == there
    wait_until(lambda: '"session"' in gate_log(world, since=time.monotonic() - ended), "the gate to tell of a session")
    assert '"key": "previous"' not in gate_log(world, since=time.monotonic() - ended)


def test_an_epoch_cuts_what_was_and_no_unit(world: World) -> None:
    """Another `epoch` changes all at once and nothing overlaps; soon after `up` the unit shows its new host key.

    Until the gate was new, which is the last, it refused the unit's clients: they try again after a while.
    """
    before, key = unit(world), pinned(world)
    world.edit(lambda config: config.update({"gpu-runtime:epoch": 1}))
    ended = up(world)

    comes_in_soon(world, ended, SOON + 2 * LONGEST_WAIT)
    assert pinned(world) != key
    assert unit(world) == before


def elsewhere(config: Config) -> None:
    """Give the tier a third server and another address for clients."""
    ssh_spec = config["gpu-runtime:platform"]["ssh"]
    ssh_spec["replicas"] = 3
    ssh_spec["connect"]["port"] = ssh_spec["service"]["nodePort"] = OTHER_PORT


def test_servers_and_addresses_change_and_sessions_stay(world: World) -> None:
    """A third server and another port for clients: who is in stays in, and what is handed out leads in."""
    before = unit(world)
    world.edit(elsewhere)
    with session_through(world, "frps-0") as session:
        ended = up(world)
        comes_in_soon(world, ended)
        assert f":{OTHER_PORT} " in world.workspace.ssh_config.read_text()
        with session_through(world, "frps-2") as through_new:
            assert echoes(through_new)
        assert echoes(session)
    assert unit(world) == before
