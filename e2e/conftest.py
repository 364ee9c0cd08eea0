"""One world for the whole run; `E2E_KEEP=1` leaves it standing."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from e2e.world import World
from tools import toolchain
from tools.rig import Rig
from tools.shell import ToolError
from tools.stack.engine import REPOSITORY
from tools.stack.workspace import Workspace

KEEP = "E2E_KEEP"


@pytest.fixture(scope="session")
def bare_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a rig with nothing of ours on it, and a folder for a stack."""
    if os.geteuid() != 0:
        pytest.skip("a rig needs root: run as root to test the main job end to end")
    rig = Rig("e2e")
    rig.down()
    folder = tmp_path_factory.mktemp("e2e")
    world = World(Workspace(folder, "e2e", REPOSITORY / "e2e" / "Pulumi.e2e.yaml"), rig)
    yield world
    world.close()
    if os.environ.get(KEEP) != "1":
        rig.down()


@pytest.fixture(scope="session")
def world(bare_world: World) -> World:
    """Give the stack, up."""
    try:
        bare_world.up()
    except ToolError as error:
        pytest.fail(f"the stack does not come up: {error}\n{describe(bare_world)}")
    return bare_world


def describe(world: World) -> str:
    """Tell what is on the rig: what a failure needs to be understood."""
    kubectl = [str(toolchain.ensure("kubectl")["kubectl"]), f"--kubeconfig={world.rig.kubeconfig}"]
    argv = [*kubectl, "get", "pods,jobs,events", "--all-namespaces"]
    found = subprocess.run(argv, capture_output=True, text=True, check=False)
    return f"{found.stdout}{found.stderr}"
