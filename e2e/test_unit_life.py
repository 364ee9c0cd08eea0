"""The life of units on a real node: programs that end or want too much, root inside, a node that is drained.

The tests run in this order on one stack.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from lightkube.resources.core_v1 import Node, Pod
from lightkube.types import PatchType

from components.flavor import ClaimSpec, Flavor
from components.gpu_unit import UnitSecrets, unit_manifests
from components.model import Manifest, quantity
from e2e.conftest import made, on_a_fresh_rig, told_on_failure
from e2e.world import PATIENCE_SECONDS, World, gone, wait_until
from tools import toolchain
from tools.stack.client import wait_for_login
from tools.stack.reading import read_file

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


def drain(world: World, unit: str, seconds: float = PATIENCE_SECONDS) -> "subprocess.CompletedProcess[str]":
    """Drain the node of one unit's pods for at most *seconds*, as docs/drain.md says, and take it back."""
    kubectl = [str(toolchain.ensure("kubectl")["kubectl"]), f"--kubeconfig={world.rig.kubeconfig}"]
    (node,) = (item.metadata.name for item in world.cluster.list(Node) if item.metadata)
    words = ["--ignore-daemonsets", "--delete-emptydir-data", f"--pod-selector=app.kubernetes.io/instance={unit}"]
    argv = [*kubectl, "drain", str(node), *words, f"--timeout={seconds:.0f}s"]
    try:
        return subprocess.run(argv, check=False, capture_output=True, text=True)
    finally:
        subprocess.run([*kubectl, "uncordon", str(node)], check=True, capture_output=True)


def test_a_drain_waits_for_a_unit_that_blocks(units: World) -> None:
    """With `disruption: block`, the default, a drain ends in time-out and the pod lives."""
    pod = units.pod("root")
    wait_until(lambda: all(one.ready for one in status(units, "root").containerStatuses), "the unit to be ready")
    done = drain(units, "root", seconds=20)

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


SIZE: dict[str, Any] = {"cpu": "1", "memory": "1Gi"}
FLAVORS = {
    "a claim": Flavor(**SIZE, claim=ClaimSpec(device_class="gpu.nvidia.com", count=2)),
    "MIG profiles": Flavor(**SIZE, resource="nvidia.com/mig-1g.10gb", gpus=2, beside={"nvidia.com/mig-2g.20gb": 1}),
    "a share": Flavor(**SIZE, beside={"nvidia.com/gpumem": 8000, "nvidia.com/gpucores": 30}),
}
"""Flavors of GPUs that the rig's nodes do not have."""


def asked(world: World, flavor: Flavor) -> list[Manifest]:
    """Give the objects of a unit of *flavor* in lab-a, in the order that they are made."""
    stack = read_file(world.workspace.config_file, world.workspace.stack)
    unit = replace(stack.units["held.lab-a"], name="asked", flavor=flavor)
    return [*unit_manifests(unit, UnitSecrets("not a key", {"tunnel.json": "{}"})).values()]


def judged(world: World, manifests: list[Manifest]) -> "subprocess.CompletedProcess[str]":
    """Have the API server judge objects, none of which is made."""
    kubectl = [str(toolchain.ensure("kubectl")["kubectl"]), f"--kubeconfig={world.rig.kubeconfig}"]
    argv = [*kubectl, "apply", "--server-side", "--dry-run=server", "--output=json", "--filename=-"]
    said = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    return subprocess.run(argv, input=said, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("flavor", FLAVORS.values(), ids=FLAVORS)
def test_the_api_server_takes_what_a_flavor_asks_for(units: World, flavor: Flavor) -> None:
    """Each object of such a unit is good to a real API server, which drops nothing of what asks for its GPUs."""
    sent = asked(units, flavor)
    done = judged(units, sent)

    assert done.returncode == 0, done.stderr
    taken = json.loads(done.stdout)["items"]
    assert [one["kind"] for one in taken] == [one["kind"] for one in sent]
    assert [what_asks(one) for one in taken] == [what_asks(one) for one in sent]


def what_asks(thing: Manifest) -> Any:
    """Give the part of an object that asks for GPUs; None where it has none."""
    if thing["kind"] == "ResourceClaimTemplate":
        return thing["spec"]["spec"]["devices"]["requests"]
    if thing["kind"] != "Deployment":
        return None
    spec = thing["spec"]["template"]["spec"]
    (unit,) = (one["resources"] for one in spec["containers"] if one["name"] == "unit")
    gpus = {key: quantity(str(amount)) for key, amount in unit["limits"].items() if "/" in key}  # 8000 comes back as 8k
    return gpus, unit.get("claims"), spec.get("resourceClaims")


def test_the_api_server_refuses_a_claim_that_is_none(units: World) -> None:
    """Dry runs do judge: a template that asks for less than no device is turned away."""
    sent = asked(units, FLAVORS["a claim"])
    (template,) = (one for one in sent if one["kind"] == "ResourceClaimTemplate")
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = -1
    done = judged(units, [template])

    assert done.returncode != 0
    assert "count" in done.stderr
