"""Control groups of a rig: one child per hierarchy. Membership is also how its processes are known to be ours."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.rig.errors import RigError

REQUIRED = ("cpu", "cpuset", "memory", "pids")
"""Controllers without which the kubelet does not start on cgroup v2."""

V2_CONTROLLERS = (*REQUIRED, "io", "hugetlb")
"""The rest is shared where it exists."""

REMOVE_SECONDS = 10
"""The kernel empties the groups of killed processes within milliseconds; a loaded machine needs longer."""

LEAF = "rig"
"""On v2 a group with children may hold no processes itself: the rig's own processes live in this child."""


@dataclass(frozen=True)
class Hierarchy:
    """One mounted cgroup hierarchy: v1 with its mount options, or v2; and where the caller's own group lies in it."""

    options: str
    mount: Path
    own: Path
    v2: bool = False


def hierarchies(mountinfo: str, membership: str) -> list[Hierarchy]:
    """Read the texts of /proc/self/mountinfo and /proc/self/cgroup."""
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in membership.splitlines())}
    found = {hierarchy.options: hierarchy for hierarchy in _mounted(mountinfo, paths)}
    return list(found.values())


def current() -> list[Hierarchy]:
    """Return the hierarchies of this process, or raise RigError when none is mounted."""
    found = hierarchies(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    if not found:
        raise RigError("no cgroup hierarchy is mounted under /sys/fs/cgroup; a rig needs cgroup v1 or v2")
    return found


def is_v2(found: list[Hierarchy]) -> bool:
    """Tell whether controllers live on v2; beside v1, a v2 mount is only for bookkeeping."""
    return all(hierarchy.v2 for hierarchy in found)


def group(hierarchy: Hierarchy, name: str, *, v2: bool) -> Path:
    """Return the rig's group. On v2 below the root: the caller's group holds processes, so cannot share controllers."""
    return (hierarchy.mount if v2 else hierarchy.own) / f"gpu-runtime-rig-{name}"


def find(name: str) -> list[Path]:
    """Return all groups that bear the name of the rig, wherever they are: fit for when its record is lost."""
    mounts = {hierarchy.mount for hierarchy in current()}
    wanted = f"gpu-runtime-rig-{name}"
    return [Path(top) / wanted for mount in mounts for top, folders, _ in os.walk(mount) if wanted in folders]


def create(found: list[Hierarchy], name: str) -> None:
    """Make the rig's groups ready to be joined."""
    v2 = is_v2(found)
    for hierarchy in found:
        path = group(hierarchy, name, v2=v2)
        if v2:
            share_controllers(hierarchy.mount)
        path.mkdir(exist_ok=True)
        if "cpuset" in hierarchy.options.split(","):
            for file in ("cpuset.cpus", "cpuset.mems"):
                (path / file).write_text((path.parent / file).read_text())


def share_controllers(root: Path) -> None:
    """Let children of a v2 group use the controllers; raise RigError when a required one is refused."""
    available = (root / "cgroup.controllers").read_text().split()
    for controller in REQUIRED:
        if controller not in available:
            raise RigError(f"cgroup v2 at {root} offers no {controller} controller; the kubelet needs it")
    for controller in (name for name in V2_CONTROLLERS if name in available):
        try:
            (root / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError as error:
            if controller not in REQUIRED:
                continue
            raise RigError(f"cgroup v2 at {root} cannot share {controller}: {error.strerror}") from error


def settle(groups: list[Path]) -> None:
    """Move a v2 rig's first processes into a leaf, so that its root group can share controllers."""
    for path in groups:
        (path / LEAF).mkdir(exist_ok=True)
        for pid in _members(path):
            (path / LEAF / "cgroup.procs").write_text(str(pid))


def pids(groups: list[Path]) -> list[int]:
    """Return every process in any of the groups and their children, as the host numbers them."""
    return sorted({pid for path in groups for pid in _tree_members(path)})


def remove(groups: list[Path]) -> None:
    """Remove the groups with all children; raise RigError naming what stays."""
    deadline = time.monotonic() + REMOVE_SECONDS
    while any(not _removed(path) for path in groups):
        if time.monotonic() > deadline:
            raise RigError(f"cgroups still in use: {', '.join(str(path) for path in groups if path.exists())}")
        time.sleep(0.05)


def mount_commands(found: list[Hierarchy]) -> list[list[str]]:
    """Return the commands that mount the hierarchies anew inside the cgroup namespace, its group as their root."""
    if is_v2(found):
        shares = " ".join(V2_CONTROLLERS)
        return [
            ["umount", "--recursive", "/sys/fs/cgroup"],
            ["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"],
            ["sh", "-c", f"for c in {shares}; do echo +$c > /sys/fs/cgroup/cgroup.subtree_control || :; done"],
        ]
    fresh = [["umount", "--recursive", "/sys/fs/cgroup"], ["mount", "-t", "tmpfs", "tmpfs", "/sys/fs/cgroup"]]
    return fresh + [command for hierarchy in found for command in _remount(hierarchy)]


def _remount(hierarchy: Hierarchy) -> Iterator[list[str]]:
    where = f"/sys/fs/cgroup/{hierarchy.mount.name}"
    yield ["mkdir", "-p", where]
    if hierarchy.v2:
        yield ["mount", "-t", "cgroup2", "cgroup2", where]
        return
    options = f"none,{hierarchy.options}" if hierarchy.options.startswith("name=") else hierarchy.options
    yield ["mount", "-t", "cgroup", "-o", options, "cgroup", where]
    for controller in hierarchy.options.split(","):
        if controller != hierarchy.mount.name and "=" not in controller:
            yield ["ln", "-s", hierarchy.mount.name, f"/sys/fs/cgroup/{controller}"]


def _mounted(mountinfo: str, paths: dict[str, str]) -> Iterator[Hierarchy]:
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2" and "" in paths:
            yield Hierarchy("", Path(mount), _below(mount, root, paths[""]), v2=True)
        for controllers, path in paths.items() if kind == "cgroup" else ():
            if controllers and set(controllers.split(",")) <= set(options.split(",")):
                yield Hierarchy(controllers, Path(mount), _below(mount, root, path))


def _below(mount: str, root: str, path: str) -> Path:
    inside = path.removeprefix(root) if root != "/" else path
    return Path(mount) / inside.lstrip("/")


def _members(path: Path) -> list[int]:
    try:
        # A process of a foreign PID namespace reads as 0; none is ours.
        return [int(pid) for pid in (path / "cgroup.procs").read_text().split() if pid != "0"]
    except OSError:  # gone meanwhile
        return []


def _tree_members(path: Path) -> Iterator[int]:
    for folder, _, _ in os.walk(path):
        yield from _members(Path(folder))


def _removed(path: Path) -> bool:
    for folder, _, _ in os.walk(path, topdown=False):
        try:
            Path(folder).rmdir()
        except OSError:  # still holds a dying process; the caller tries again
            return False
    return True
