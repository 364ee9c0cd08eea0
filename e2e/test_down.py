"""The end of the main job's stack; runs after all who work on it (see conftest.GROUPS)."""

import os
import subprocess
from pathlib import Path

import pytest

from e2e.world import World
from tools.stack import local

pytestmark = pytest.mark.e2e


def test_down_leaves_nothing(world: World) -> None:
    """`make down` removes the rig with all its data, and the stack's folder."""
    rig = world.rig
    local.down(world.workspace, rig, keep_rig=False)
    spaces = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    mounts = Path("/proc/self/mountinfo").read_text()

    assert rig.status().state == "absent"
    assert rig.link not in spaces + links
    assert str(rig.folder.path) not in mounts
    assert not rig.folder.path.exists()
    assert not world.workspace.folder.exists()
    assert not [top for top, cgroups, _ in os.walk("/sys/fs/cgroup") if any(rig.name in one for one in cgroups)]
