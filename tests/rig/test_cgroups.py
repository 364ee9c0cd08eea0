"""Control groups, read from the kernel's own texts."""

from pathlib import Path

import pytest

from tools.rig import RigError, cgroups
from tools.rig.cgroups import Hierarchy

V1_MOUNTS = """\
30 20 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
V1_MEMBERSHIP = "4:memory:/user/1\n3:cpu,cpuacct:/\n2:name=systemd:/user.slice\n0::/"
V2_MOUNTS = "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_v1_with_shared_mounts() -> None:
    """Every v1 hierarchy is found with the caller's place in it; a v2 mount beside them does not make it v2."""
    found = {one.options: one for one in cgroups.hierarchies(V1_MOUNTS, V1_MEMBERSHIP)}

    assert found["memory"] == Hierarchy("memory", Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/memory/user/1"))
    assert set(found) == {"memory", "cpu,cpuacct", "name=systemd", ""}
    assert not cgroups.is_v2(list(found.values()))
    assert cgroups.group(found["memory"], "x", v2=False) == Path("/sys/fs/cgroup/memory/user/1/gpu-runtime-rig-x")


def test_v1_is_mounted_anew_inside() -> None:
    """Inside, each controller is found under its own name too, as runtimes look for it."""
    commands = cgroups.mount_commands(cgroups.hierarchies(V1_MOUNTS, V1_MEMBERSHIP))

    assert ["mount", "-t", "cgroup", "-o", "cpu,cpuacct", "cgroup", "/sys/fs/cgroup/cpu,cpuacct"] in commands
    assert ["ln", "-s", "cpu,cpuacct", "/sys/fs/cgroup/cpuacct"] in commands
    assert ["mount", "-t", "cgroup", "-o", "none,name=systemd", "cgroup", "/sys/fs/cgroup/systemd"] in commands


def test_v2() -> None:
    """On v2 the rig's group lies below the root, not in the caller's group, which holds processes."""
    found = cgroups.hierarchies(V2_MOUNTS, "0::/user.slice/session-1.scope")

    assert cgroups.is_v2(found)
    assert cgroups.group(found[0], "x", v2=True) == Path("/sys/fs/cgroup/gpu-runtime-rig-x")
    assert ["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"] in cgroups.mount_commands(found)


def test_in_a_container_the_mount_shows_a_part() -> None:
    """A mount whose root is the caller's own group puts the rig right below the mount point."""
    mounts = "31 30 0:27 /docker/ab /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    (found,) = cgroups.hierarchies(mounts, "4:pids:/docker/ab")

    assert found.own == Path("/sys/fs/cgroup/pids")


def test_v2_without_a_needed_controller_is_refused(tmp_path: Path) -> None:
    """The kubelet would end with a riddle; the rig says which controller is missing."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids io\n")

    with pytest.raises(RigError, match="cpuset"):
        cgroups.share_controllers(tmp_path)


def test_settling_moves_processes_into_a_leaf(tmp_path: Path) -> None:
    """On v2 a group that shares controllers holds no processes itself."""
    (tmp_path / "cgroup.procs").write_text("41\n0\n")
    cgroups.settle([tmp_path])

    assert (tmp_path / "rig" / "cgroup.procs").read_text() == "41"


def test_members_of_children_count(tmp_path: Path) -> None:
    """Containers live in groups below the rig's; all of them are its processes."""
    (tmp_path / "kubepods" / "pod1").mkdir(parents=True)
    (tmp_path / "cgroup.procs").write_text("7\n")
    (tmp_path / "kubepods" / "pod1" / "cgroup.procs").write_text("9\n8\n")

    assert cgroups.pids([tmp_path, tmp_path / "gone"]) == [7, 8, 9]


def test_removal_goes_all_the_way_down(tmp_path: Path) -> None:
    """Groups go with their children; one that is gone already is no mistake."""
    (tmp_path / "rig" / "kubepods" / "pod1").mkdir(parents=True)
    cgroups.remove([tmp_path / "rig", tmp_path / "gone"])

    assert not (tmp_path / "rig").exists()


def test_a_group_in_use_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be removed is said by its path."""
    monkeypatch.setattr(cgroups, "REMOVE_SECONDS", 0)
    (tmp_path / "rig").mkdir()
    (tmp_path / "rig" / "held").touch()

    with pytest.raises(RigError, match=str(tmp_path / "rig")):
        cgroups.remove([tmp_path / "rig"])
