"""What is kept of a rig: one folder, owned by root, from which every later command finds it again."""

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from tools.rig.errors import RigError
from tools.rig.network import Network
from tools.shell import HEARTBEAT_SECONDS, say

NAME = re.compile(r"[a-z](-?[a-z0-9]+)*")
NAME_LENGTH = 11
"""The link to the host is called `rig-<name>`, and a network device has at most 15 characters."""

FORMAT = 1
"""Of the record; a record of another format is not read."""


def rigs_folder() -> Path:
    """Return the folder of all rigs of this machine."""
    return Path(os.environ.get("GPU_RUNTIME_RIGS") or "/var/lib/gpu-runtime/rigs").absolute()


def checked_name(name: str) -> str:
    """Return *name*, or raise RigError when it cannot name a rig."""
    if not NAME.fullmatch(name) or len(name) > NAME_LENGTH:
        raise RigError(
            f"{name!r} cannot name a rig: use at most {NAME_LENGTH} lower-case letters and digits, dashes between them"
        )
    return name


@dataclass(frozen=True)
class Record:
    """What was chosen for a rig before anything of it was made, so that `down` finds all after any interruption."""

    network: Network
    cgroups: tuple[Path, ...]


@dataclass(frozen=True)
class Folder:
    """The files of one rig. `inside` is what the rig itself sees as /var/lib/rig."""

    path: Path

    @property
    def var(self) -> Path:
        """Return what the rig sees as /var: nothing of it writes to the host's."""
        return self.path / "var"

    @property
    def inside(self) -> Path:
        """Return the host's path of the rig's /var/lib/rig."""
        return self.var / "lib" / "rig"

    @property
    def logs(self) -> Path:
        """Return the folder with one log per component."""
        return self.var / "log" / "rig"

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.path / "kubeconfig"

    @property
    def ready(self) -> Path:
        """Return the file that says which running rig was seen ready."""
        return self.path / "ready.json"

    @property
    def _record(self) -> Path:
        return self.path / "rig.json"

    def read(self) -> Record | None:
        """Return the record, None when there is none; raise RigError when it cannot be understood."""
        try:
            fields = json.loads(self._record.read_text())
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise RigError(f"only root may read {self._record} (try sudo)") from error
        except (OSError, ValueError) as error:
            raise RigError(f"{self._record} is unreadable ({error}): restore or remove it by hand") from error
        if fields.get("format") != FORMAT:
            raise RigError(f"{self._record} was written by another version of the rig: take it down with that version")
        network = Network(IPv4Network(fields["network"]), fields.get("ipv6", False))
        return Record(network, tuple(Path(path) for path in fields["cgroups"]))

    def read_if_sound(self) -> Record | None:
        """Return the record, or None where it is of no use: `down` must work without it."""
        try:
            return self.read()
        except RigError:
            return None

    def write(self, record: Record) -> None:
        """Keep the record."""
        fields = {
            "format": FORMAT,
            "network": str(record.network.block),
            "ipv6": record.network.ipv6,
            "cgroups": [str(path) for path in record.cgroups],
        }
        write_json(self._record, fields)

    def make(self) -> None:
        """Make the folders that must exist before the rig starts."""
        for folder in ("lib/rig", "lib/cni", "lib/kubelet", "log/pods", "log/containers", "tmp", "cache"):
            (self.var / folder).mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            (self.var / "run").symlink_to("/run")
        self.rotate_logs()

    def rotate_logs(self) -> None:
        """Begin new logs and keep those of the run before: they say why it ended."""
        previous = self.logs.with_name("rig.previous")
        if self.logs.exists():
            shutil.rmtree(previous, ignore_errors=True)
            self.logs.rename(previous)
        self.logs.mkdir(parents=True)

    @property
    def holds_cluster(self) -> bool:
        """Tell whether there is data of a cluster to go on with."""
        return (self.var / "lib/etcd/member").exists()

    def forget_run(self) -> None:
        """Remove what belongs to the run that ended, such as leases of addresses to pods that no longer run."""
        shutil.rmtree(self.var / "lib/cni", ignore_errors=True)
        for file in (self.inside / "progress.json", self.inside / "ended.json", self.ready, *self._sockets()):
            file.unlink(missing_ok=True)

    def _sockets(self) -> Iterator[Path]:
        """Yield sockets of the kubelet's: programs of the next run would take them for its."""
        yield from (self.var / "lib/kubelet/device-plugins").glob("*.sock")

    def discard(self) -> None:
        """Remove the data, but not the record, so that an interrupted removal can be repeated."""
        self.refuse_mounts()
        if self.var.exists():
            shutil.rmtree(self.var)
        for file in (self.ready, self.kubeconfig):
            file.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder, and the folders above it when it was the last one."""
        self.discard()
        shutil.rmtree(self.path)
        for parent in (self.path.parent, self.path.parent.parent):
            with suppress(OSError):  # another rig lives there
                parent.rmdir()

    def refuse_mounts(self) -> None:
        """Raise RigError when something is mounted below: removing would then reach into it."""
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        if below := [mount for mount in mounts if Path(mount).is_relative_to(self.path)]:
            raise RigError(f"mounted below {self.path}: {', '.join(below)}; unmount it first")


def write_json(path: Path, value: object) -> None:
    """Write a file that is either whole or not there."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(value, indent=1) + "\n")
    fresh.replace(path)


@contextmanager
def locked(folder: Path, label: str) -> Iterator[None]:
    """Hold *folder* (made when missing) for this process alone; it is locked itself, so that no lock file stays."""
    while True:
        descriptor = _opened(folder)
        try:
            _wait_for_lock(descriptor, label)
            if _same(descriptor, folder):  # else its holder removed it, and the lock is worth nothing
                yield
                return
        finally:
            os.close(descriptor)


def _opened(folder: Path) -> int:
    while True:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileNotFoundError):  # removed between the two: make it again
            return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def _wait_for_lock(descriptor: int, label: str) -> None:
    started = said = time.monotonic()
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() - said >= HEARTBEAT_SECONDS:
                said = time.monotonic()
                say(f"{label}: waiting for another command on it, {said - started:.0f} s")
            time.sleep(0.05)


def _same(descriptor: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat())
    except FileNotFoundError:
        return False
