"""What `up` waits for and what it tells, units by name, and states, on real parts.

The tests run in this order on one stack; each says what it leaves.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from lightkube import ApiError
from lightkube.resources.apps_v1 import Deployment

from components.unit_spec import UnitSpec, seconds
from e2e.conftest import on_a_fresh_rig, told_on_failure
from e2e.world import World, attempt, wait_until
from stacks.resolve import Stack
from tools.shell import ToolError
from tools.stack import local
from tools.stack.client import wait_for_login, write_client_files
from tools.stack.reading import read_file
from tools.status.rows import rows, table
from tools.units.declare import declare
from tools.units.pods import restart, show_logs

pytestmark = pytest.mark.e2e

TIMEOUT = seconds(UnitSpec.model_fields["timeout"].default)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a rig for the stack, ready to be run, and a stack file that may be edited."""
    folder = tmp_path_factory.mktemp("arrival")
    with on_a_fresh_rig(folder / "local", "arrival") as made:
        source = folder / "Pulumi.arrival.yaml"
        shutil.copy(made.workspace.source, source)
        world = replace(made, workspace=replace(made.workspace, source=source))
        local.make_ready(world.workspace, world.rig)
        try:
            yield world
        finally:
            world.close()


tell_on_failure = told_on_failure("world")


def stack(world: World) -> Stack:
    """Read the stack as it was run last."""
    return read_file(world.workspace.config_file, world.workspace.stack)


def states(world: World) -> dict[str, tuple[str, str]]:
    """Give phase and SSH state of each unit, as `make status` tells them."""
    found = list(rows(world.cluster, stack(world)))
    assert all(row.unit in table(found) for row in found)
    return {row.unit: (row.state.unit.text, row.state.ssh.state.value) for row in found}


def test_a_broken_unit_fails_a_bare_up_early_and_the_others_arrive(world: World) -> None:
    """Long before its timeout, `pulumi up` fails with the program's last words; the other units are up by then.

    Leaves the broken unit.
    """
    begun = time.monotonic()
    status, said = attempt(world.engine(), "up", "--yes")

    assert status != 0
    assert time.monotonic() - begun < TIMEOUT
    assert "unit broken.lab-a: its program ended with 3" in said
    assert "no data at /data" in said
    assert "unit good.lab-a: a login works" in said
    assert "unit quiet.lab-a: runs" in said
    assert "1 of 4 units do not work" in said
    write_client_files(world.workspace, world.engine().outputs())
    wait_for_login(world.workspace, "good.lab-a")


def test_states_tell_which(world: World) -> None:
    """`make status` tells a unit that is reached from one that is broken, one that is held and one without SSH."""
    expected = {"good": ("Ready", "Reachable"), "quiet": ("Ready", "Disabled"), "held": ("Exited(5)", "Reachable")}

    def told() -> bool:
        found = states(world)
        return found.pop("broken")[1] == "Pending" and found == expected

    wait_until(told, f"status to tell {expected}, and that the broken one takes no login")


def test_what_was_broken_before_is_a_warning(world: World) -> None:
    """The next `up` changes nothing and fails nothing, and still says which unit is in trouble.

    Not where it looks in the second in which the kubelet has just started the unit again: then the next one does.
    """

    def warned() -> bool:
        status, said = attempt(world.engine(), "up", "--yes")
        assert status == 0, said
        return "unit broken.lab-a, which this run did not change" in said

    wait_until(warned, "`up` to tell of the broken unit")


def test_a_broken_unit_keeps_nothing_from_being_removed(world: World) -> None:
    """While one unit breaks, what left the stack file is removed all the same. Leaves the others."""
    with world.changed(lambda config: units(config).update(worse={**units(config).pop("broken"), "command": FAIL})):
        status, said = attempt(world.engine(), "up", "--yes", "--continue-on-error")

    assert status != 0
    assert "unit worse.lab-a: its program ended with 4" in said
    assert not exists(world, "unit-broken")
    edit(world, lambda text: text[: text.index("        broken:")])
    world.up()
    assert not exists(world, "unit-worse")


FAIL = ["python3", "-c", "raise SystemExit(4)"]


def units(config: dict[str, Any]) -> dict[str, Any]:
    """Give the units of a stack file."""
    found: dict[str, Any] = config["gpu-runtime:tenants"]["lab-a"]["units"]
    return found


def exists(world: World, deployment: str) -> bool:
    """Say whether lab-a has a Deployment of that name."""
    with suppress(ApiError):
        return bool(world.cluster.get(Deployment, deployment, namespace="lab-a"))
    return False


def edit(world: World, change: Callable[[str], str]) -> None:
    """Change the stack file that people edit."""
    world.workspace.source.write_text(change(world.workspace.source.read_text()))


def test_a_unit_is_stopped_and_started_by_name(world: World) -> None:
    """`running` is written into the stack file, its comment stays, and `up` waits for the pod to go and to come."""
    before = world.workspace.source.read_text()
    assert declare(world.workspace.source, "good.lab-a", running=False)
    assert world.up() == ["held.lab-a"]
    assert states(world)["good"] == ("Stopped", "Pending")
    with pytest.raises(ToolError, match="does not run"):
        restart(world.cluster, stack(world).units["good.lab-a"])

    assert declare(world.workspace.source, "good.lab-a", running=True)
    assert world.up() == ["good.lab-a", "held.lab-a"]
    assert states(world)["good"] == ("Ready", "Reachable")
    assert world.workspace.source.read_text().replace("          running: true\n", "") == before


def test_a_restart_is_a_new_pod_and_no_drift(world: World) -> None:
    """The pod is another, a login works when the command ends, and the engine sees nothing to change."""
    old = world.pod("good")
    restart(world.cluster, stack(world).units["good.lab-a"])

    assert world.pod("good") != old
    assert world.ssh("good.lab-a", "id -un") == "bob"
    status, said = attempt(world.engine(), "preview", "--refresh", "--expect-no-changes")
    assert status == 0, said


def test_logs_are_the_programs(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """What the program said is shown, and another container's words by its name."""
    unit = stack(world).units["good.lab-a"]
    show_logs(world.cluster, unit, "unit", follow=False)
    assert capsys.readouterr().out == "working\n"
    show_logs(world.cluster, unit, "tunnel", follow=False)
    assert '"state": "announced"' in capsys.readouterr().out
    with pytest.raises(ToolError, match="has no container 'nobody'; it has unit, "):
        show_logs(world.cluster, unit, "nobody", follow=False)
