"""Doctor on a real cluster: a healthy one passes, one that ignores policies does not, and nothing stays behind."""

import pytest

from e2e.world import World, wait_until
from tools.doctor.__main__ import examine
from tools.doctor.findings import Status
from tools.doctor.walls import CHECK, WINDOW
from tools.rig.enforcement import unenforced
from tools.stack.reading import read_file

pytestmark = pytest.mark.e2e


def examined(world: World) -> dict[str, Status]:
    """Give each check's status, and see that the cluster has the same namespaces as before."""
    before = world.namespaces()
    findings = examine(read_file(world.workspace.config_file, world.workspace.stack))

    wait_until(lambda: world.namespaces() == before, "doctor's namespaces to go")
    return {finding.check: finding.status for finding in findings}


def test_a_healthy_cluster_passes(walls: World) -> None:
    """With the stack up every check is well but what a rig cannot have: a plugin that is known, volumes that grow."""
    found = examined(walls)

    assert {check for check, status in found.items() if status is not Status.OK} == {"network plugin", "storage class"}
    assert Status.FAIL not in found.values()
    assert {CHECK, WINDOW} <= found.keys()


def test_ignored_policies_fail(walls: World) -> None:
    """Where the network plugin does nothing, the walls in use fail, and nothing else does."""
    with unenforced(walls.rig):
        found = examined(walls)

    assert [check for check, status in found.items() if status is Status.FAIL] == [CHECK]
