"""A rig for each worker, and a stack for each group of modules; `E2E_KEEP=1` leaves them standing."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]

from e2e.world import World
from tests.clients import ensure_clients
from tools import toolchain
from tools.rig import Rig
from tools.shell import ToolError
from tools.stack import local
from tools.stack.engine import REPOSITORY
from tools.stack.workspace import Workspace

KEEP = "E2E_KEEP"
NAME = "e2e"

GROUPS = (
    ("test_main_job", "test_pages", "test_gate", "test_tier", "test_down"),
    ("test_probe", "test_stack_doctor", "test_walls"),
    ("test_proxy",),
    ("test_prepare",),
    ("test_storage",),
    ("test_rotation",),
    ("test_two_stacks",),
    ("test_unit_life",),
    ("test_browser",),
    ("test_landing",),
    ("test_keys",),
    ("test_web_ports",),
    ("test_arrival",),
)
"""Modules that share a stack, in the order that they run in: the main job's from its first `up` to its `down`, that of
the walls, and one for each of the others. With several workers a group is one worker's; what takes longest begins."""


GROUP = {module: group[0] for group in GROUPS for module in group}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the modules into the order of GROUPS; a module in none has no place yet."""
    here, order = Path(__file__).parent, [*GROUP]
    items.sort(key=lambda item: order.index(item.path.stem) if item.path.parent == here else -1)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker, where there are several, a whole group at a time."""
    lanes = LoadScopeScheduling(config, log)
    lanes._split_scope = lambda nodeid: GROUP[Path(nodeid.partition("::")[0]).stem]
    return lanes


@contextmanager
def on_a_fresh_rig(folder: Path, stack: str) -> Iterator[World]:
    """Give this worker's rig with nothing of ours on it, and *folder* for a stack of e2e/Pulumi.<stack>.yaml."""
    if os.geteuid() != 0:
        pytest.skip("a rig needs root: run as root to test the main job end to end")
    ensure_clients()
    rig = Rig("-".join(filter(None, (NAME, os.environ.get("PYTEST_XDIST_WORKER")))))
    rig.down()
    world = World(Workspace(folder, stack, REPOSITORY / "e2e" / f"Pulumi.{stack}.yaml"), rig)
    try:
        yield world
    finally:
        world.close()
        if os.environ.get(KEEP) != "1":
            rig.down()


@pytest.fixture(scope="session")
def bare_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a rig for the main job's stack."""
    with on_a_fresh_rig(tmp_path_factory.mktemp("e2e"), "e2e") as world:
        yield world


@pytest.fixture(scope="session")
def world(bare_world: World) -> World:
    """Give the main job's stack, up."""
    return made(bare_world)


@pytest.fixture(scope="session")
def bare_walls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a rig for the stack whose walls are tried, which is ready to be run but was not."""
    with on_a_fresh_rig(tmp_path_factory.mktemp("walls"), "walls") as world:
        local.make_ready(world.workspace, world.rig)
        yield world


@pytest.fixture(scope="session")
def walls(bare_walls: World) -> World:
    """Give the stack whose walls are tried, up."""
    return made(bare_walls)


def made(world: World) -> World:
    """Do what `make up` does, and say what is there when it fails."""
    try:
        world.up()
    except ToolError as error:
        pytest.fail(f"the stack does not come up: {error}\n{describe(world)}")
    return world


def describe(world: World) -> str:
    """Tell what is on the rig: what a failure needs to be understood."""
    kubectl = [str(toolchain.ensure("kubectl")["kubectl"]), f"--kubeconfig={world.rig.kubeconfig}"]
    argv = [*kubectl, "get", "pods,jobs,events", "--all-namespaces"]
    found = subprocess.run(argv, capture_output=True, text=True, check=False)
    return f"{found.stdout}{found.stderr}"


def told_on_failure(fixture: str, tell: Callable[[Any], str] = describe) -> Any:
    """Give a module's own fixture: a failure tells what is on the rig that its *fixture* gives."""

    @pytest.fixture(autouse=True)
    def told(request: pytest.FixtureRequest) -> Iterator[None]:
        ground, failed = request.getfixturevalue(fixture), request.session.testsfailed
        yield
        if request.session.testsfailed > failed:
            print(tell(ground))  # noqa: T201 - pytest shows it beside the failure

    return told
