"""Problems of one unit that its own values show together, or with the storages of its tenant."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from components import names
from components.model import RunAs, UnitRunAs
from components.storage_spec import StorageSpec
from components.unit_spec import GPU_ENV_PREFIXES, PLATFORM_ENV, SYSTEM_FOLDERS, SYSTEM_TREES, UnitSpec
from stacks.problems import Problem

Storages = Mapping[str, StorageSpec | None]
"""Every storage that the tenant declares; None where it is itself refused."""


def unit_problems(path: str, name: str, unit: UnitSpec, storages: Storages) -> Iterator[Problem]:
    """Yield the problems of unit *name*, written at *path*."""
    yield from _program(path, unit)
    yield from _user(path, unit)
    yield from _environment(path, unit)
    yield from _ports(path, unit)
    yield from _mount_paths(path, unit)
    yield from _mounted_storages(path, name, unit, storages)


def _program(path: str, unit: UnitSpec) -> Iterator[Problem]:
    if unit.args and not unit.command and unit.mode == "workload":
        yield Problem(
            f"{path}.args",
            "needs `command` beside it: the image's ENTRYPOINT cannot be known at preview; write the whole command"
            " (or let the image bring its own sshd: `ssh: {mode: image}`)",
        )
    if unit.after_exit == "hold" and unit.mode != "workload":
        yield Problem(
            f"{path}.afterExit",
            f"hold needs our launcher around the program, which mode {unit.mode} leaves out; say restart or nothing",
        )


def _user(path: str, unit: UnitSpec) -> Iterator[Problem]:
    if unit.run_as.is_root and not unit.user_namespace:
        yield Problem(
            f"{path}.runAs",
            f"{unit.run_as}: a unit is root only in a user namespace of its own: say `userNamespace: true` beside it, "
            "where the cluster can, or ids from 1",
        )
    if unit.run_as.uid == 0 and unit.mode == "image":
        yield Problem(
            f"{path}.runAs.uid",
            "0: an image's own sshd takes itself for a privileged one as root, and ends without a capability; "
            "say `ssh: {mode: workload}`, or a uid from 1",
        )


def _environment(path: str, unit: UnitSpec) -> Iterator[Problem]:
    for name in unit.env:
        yield from _variable(f"{path}.env.{name}", name)
    for name in unit.secret_env:
        yield from _variable(f"{path}.secretEnv.{name}", name)
        if name in unit.env:
            yield Problem(f"{path}.secretEnv.{name}", "is in `env` as well; say it once")


def _variable(path: str, name: str) -> Iterator[Problem]:
    if name in PLATFORM_ENV:
        yield Problem(path, "is set by the platform; choose another name")
    elif name.startswith(GPU_ENV_PREFIXES):
        yield Problem(path, "may not be set: which GPUs a unit sees is what its flavor grants")


def _ports(path: str, unit: UnitSpec) -> Iterator[Problem]:
    for what, values in (("name", [p.name for p in unit.ports]), ("port", [p.port for p in unit.ports])):
        for value in _repeated(values):
            yield Problem(f"{path}.ports", f"{what} {value} is there more than once")
    if any(port.port == names.SSHD_PORT for port in unit.ports):
        yield Problem(f"{path}.ports", f"port {names.SSHD_PORT} is sshd's own; serve on another")


def _mount_paths(path: str, unit: UnitSpec) -> Iterator[Problem]:
    paths = [mount.path for mount in unit.mounts]
    for repeated in _repeated(paths):
        yield Problem(f"{path}.mounts", f"{repeated} is there more than once")
    for mount in unit.mounts:
        if any(part in {".", ".."} for part in mount.path.split("/")):
            yield Problem(f"{path}.mounts", f"{mount.path}: '.' and '..' are no names; write the plain path")
        elif reserved := _reserved(mount.path, unit):
            yield Problem(f"{path}.mounts", f"{mount.path} would hide {reserved}; mount at a new path such as /data")


def _reserved(mount: str, unit: UnitSpec) -> str | None:
    """Name what a volume at *mount* would hide, if anything."""
    home = unit.home_dir
    if mount == home:
        return "the home directory (say `home: {storage: ...}` to keep it on a storage)"
    if mount in SYSTEM_FOLDERS:
        return f"{mount} of the system"
    if mount.startswith("/.gpu-runtime"):
        return "the platform's own files"
    return next((f"{tree} of the system" for tree in SYSTEM_TREES if f"{mount}/".startswith(f"{tree}/")), None)


def _mounted_storages(path: str, name: str, unit: UnitSpec, storages: Storages) -> Iterator[Problem]:
    for storage in dict.fromkeys(unit.storages):
        if storage not in storages:
            known = ", ".join(sorted(storages)) or "none"
            yield Problem(f"{path}.mounts", f"storage {storage!r} is none of the tenant's storages: {known}")
            continue
        spec = storages[storage]
        if spec is not None and not _fits(unit.run_as, spec.run_as, writes=_writes(unit, storage)):
            yield Problem(
                f"{path}.runAs",
                f"unit {name} runs as {unit.run_as}, but storage {storage} is owned by {spec.run_as}; "
                "give both the same runAs (root, and who only reads: the same gid), since each pod that mounts a volume"
                " gives it to its own group",
            )


def _fits(unit: UnitRunAs, owner: RunAs, *, writes: bool) -> bool:
    """Say whether a unit can use what *owner* has prepared; root without a capability is one of its group at most.

    Who only reads needs the group all the same: its pod's fsGroup is what the kubelet makes the volume's.
    """
    return unit.gid == owner.gid and (not writes or unit.uid in (owner.uid, 0))


def _writes(unit: UnitSpec, storage: str) -> bool:
    """Say whether any of the unit's mounts of *storage* is writable."""
    homes = unit.home is not None and unit.home.storage == storage
    return homes or any(mount.storage == storage and not mount.read_only for mount in unit.mounts)


def _repeated(values: Iterable[object]) -> list[object]:
    return [value for value, count in Counter(values).items() if count > 1]
