"""The life of units on a real node: programs that end or want too much, root inside, a node that is drained.

The tests run in this order on one stack.
"""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from lightkube.resources.core_v1 import Node, Pod
from lightkube.types import PatchType

from e2e.conftest import made, on_a_fresh_rig, told_on_failure
from e2e.world import World, gone, wait_until
from tools import toolchain
from tools.stack.client import wait_for_login

pytestmark = pytest.mark.e2e

FORTY = "a-unit-whose-name-is-forty-characters-to.tenant-whose-name-is-of-forty-characters"


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give the stack of units, up."""
    with on_a_fresh_rig(tmp_path_factory.mktemp("units"), "units") as world:
        yield made(world)


tell_on_failure = told_on_failure("units")


def status(world: World, unit: str) -> Any:
    """Give the status of a unit's pod."""
    return world.cluster.get(Pod, world.pod(unit), namespace="lab-a").status


def main(world: World, unit: str) -> Any:
    """Give the status of a unit's own container."""
    (found,) = (c for c in status(world, unit).containerStatuses if c.name == "unit")
    return found


def shown(world: World, unit: str) -> Any:
    """Give what the API shows of a unit's ended program; None before its end."""
    (found,) = (c for c in status(world, unit).containerStatuses if c.name == "exit")
    return found.lastState.terminated if found.lastState else None


def test_a_held_unit_shows_its_code_and_lets_its_owner_look(units: World) -> None:
    """The code and how long it ran are in the API, and what the program left is still there for who logs in."""
    wait_until(lambda: shown(units, "held") is not None, "the code of held")
    ended = shown(units, "held")

    assert ended.exitCode == 3
    assert ended.message.startswith("the program ended with 3 after ")
    assert main(units, "held").restartCount == 0
    assert main(units, "held").state.running.startedAt <= ended.finishedAt
    assert units.ssh("held.lab-a", "cat /tmp/left") == "a core"


def test_out_of_memory_costs_the_program_and_not_the_way_in(units: World) -> None:
    """Whether the kernel ends one process or the whole container, a login works again afterwards."""
    wait_until(
        lambda: shown(units, "hungry") is not None or main(units, "hungry").restartCount > 0, "the end of hungry"
    )

    wait_for_login(units.workspace, "hungry.lab-a")
    if ended := shown(units, "hungry"):
        assert ended.exitCode == 137


def test_root_inside_is_nobody_outside(units: World) -> None:
    """Root of a user namespace writes what the image's root owns, has no capability, and is no root of the node's."""
    outside = "awk '$1 == 0 { print ($2 > 65535) }' /proc/self/uid_map; grep CapBnd /proc/self/status | cut -f2"

    assert units.ssh("root.lab-a", "id -u; stat -c %u /usr/local/mine").split() == ["0", "0"]
    assert units.ssh("root.lab-a", outside).split() == ["1", "0" * 16]


def test_roots_home_is_kept(units: World) -> None:
    """A storage that ids are mapped for is written by root, and found again by its next pod."""
    units.ssh("root.lab-a", "echo kept > ~/note")
    units.restart("root")

    assert units.ssh("root.lab-a", "cat ~/note; stat -c %u:%g ~/note") == "kept\n0:1000"


def test_names_at_the_limit(units: World) -> None:
    """The longest names that a stack file takes make objects that Kubernetes takes, and a host that is reached."""
    assert units.ssh(FORTY, "id -un") == "a23456789012345678901234567890-x"


def drain(world: World, unit: str) -> "subprocess.CompletedProcess[str]":
    """Drain the node of one unit's pods, as docs/drain.md says, and take it back."""
    kubectl = [str(toolchain.ensure("kubectl")["kubectl"]), f"--kubeconfig={world.rig.kubeconfig}"]
    (node,) = (item.metadata.name for item in world.cluster.list(Node) if item.metadata)
    words = ["--ignore-daemonsets", "--delete-emptydir-data", f"--pod-selector=app.kubernetes.io/instance={unit}"]
    try:
        return subprocess.run(
            [*kubectl, "drain", str(node), *words, "--timeout=20s"], check=False, capture_output=True, text=True
        )
    finally:
        subprocess.run([*kubectl, "uncordon", str(node)], check=True, capture_output=True)


def test_a_drain_waits_for_a_unit_that_blocks(units: World) -> None:
    """With `disruption: block`, the default, a drain ends in time-out and the pod lives."""
    pod = units.pod("root")
    done = drain(units, "root")

    assert done.returncode != 0
    assert "violate the pod's disruption budget" in done.stderr
    assert units.pod("root") == pod


def test_a_drain_ends_a_unit_that_allows_it(units: World) -> None:
    """With `disruption: allow` it does not wait, and the unit starts again where there is room."""
    pod = units.pod("held")
    done = drain(units, "held")

    assert done.returncode == 0, done.stderr
    wait_until(lambda: gone(units.cluster, pod), "the drained pod to go")
    wait_for_login(units.workspace, "held.lab-a")


def test_a_broken_unit_blocks_no_drain(units: World) -> None:
    """A pod that is not ready is no work that is lost: its budget does not hold for it."""
    pod = units.pod("root")
    image = {"spec": {"containers": [{"name": "unit", "image": "localhost/not-there:1"}]}}
    units.cluster.patch(Pod, pod, image, namespace="lab-a", patch_type=PatchType.STRATEGIC)
    wait_until(lambda: not main(units, "root").ready, "the unit to be broken")
    done = drain(units, "root")

    assert done.returncode == 0, done.stderr
