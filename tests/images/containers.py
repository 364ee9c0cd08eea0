"""Containers without a cluster: namespaces of our own, with the mounts and the rights that a unit's containers have."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
Mounts = Mapping[str, tuple[Path, str]]
"""Path in the container → folder or file of this machine, "ro" or "rw"."""

UID, GROUP = 1000, 2000
"""The unit's user, and the group that volumes belong to."""

USER, HOME = "alice", "/home/alice"
SH = "/.gpu-runtime/bin/sh"
UNDER_TINI = ("/.gpu-runtime/bin/tini", "--", SH)
PATIENCE = 60.0
"""Seconds within which anything that is waited for here must happen."""


def until(look: Callable[[], T | None]) -> T:
    """Return what *look* sees, once that is true."""
    deadline = time.monotonic() + PATIENCE
    while not (seen := look()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return seen


@dataclass
class Running:
    """A container that was started; *namespaces* is a process of this machine that holds its network."""

    namespaces: subprocess.Popen[str]

    @property
    def process(self) -> int:
        """Give process 1 of the container, as this machine counts."""
        pid = self.namespaces.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to process 1, as a kubelet does."""
        os.kill(self.process, number)

    def kill(self) -> None:
        """End process 1, and with it every process of the container.

        To end its parent is not enough: the kernel forgets the signal for its death when a process gives up root.
        """
        if self.namespaces.poll() is None:
            with suppress(ValueError, ProcessLookupError, FileNotFoundError):
                self.signal(signal.SIGKILL)
            self.namespaces.kill()

    def ends_with(self) -> int:
        """Wait for the end and return the exit status."""
        return self.namespaces.wait(PATIENCE)

    def in_network(self, *argv: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program of this machine in the container's network."""
        command = self.argv(*argv)
        return subprocess.run(command, check=False, capture_output=True, text=True, input=stdin, timeout=PATIENCE)

    def argv(self, *argv: str | Path) -> list[str | Path]:
        """Say how a program of this machine is started in the container's network."""
        return ["nsenter", f"--target={self.namespaces.pid}", "--net", *argv]

    def answers(self) -> bool:
        """Whether something listens on sshd's port."""
        return self.in_network("nc", "-z", "127.0.0.1", "2222").returncode == 0


@dataclass
class Pod:
    """A unit's image and volumes, as folders, and its containers."""

    folder: Path
    env: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/bin:/bin"})
    uid: int = UID
    read_only_root: bool = False
    volumes: dict[str, tuple[Path, str]] = field(default_factory=dict)
    """More that the unit's own container, or a prepare job, mounts."""
    image: Path | None = None
    """A user's image that several pods share; None: this pod's own, which has nothing at first."""

    def __post_init__(self) -> None:
        for name in ("image", "bundle", "accounts", "run", "host", "keys", "home", "workspace", "exit"):
            self.path(name).mkdir(parents=True)
        for name in ("bundle", "accounts", "run", "home", "workspace", "exit"):
            os.chown(self.path(name), 0, GROUP)
            self.path(name).chmod(0o2775)

    def path(self, name: str) -> Path:
        """Return the folder of one of the volumes, or of the user's `image`."""
        return self.folder / name

    def image_file(self, name: str, text: str, mode: int = 0o644) -> Path:
        """Put a file into the user's image."""
        file = self.path("image") / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def accounts(self) -> subprocess.CompletedProcess[str]:
        """Run init container `accounts`."""
        mounts = {
            "/.gpu-runtime": (self.path("bundle"), "ro"),
            "/.gpu-runtime-etc": (self.path("accounts"), "rw"),
            "/.gpu-runtime-home": (self.path("home"), "rw"),
        }
        return self.run([SH, "/.gpu-runtime/libexec/accounts"], mounts)

    def prepare(self, digest: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a prepare job to its end."""
        with self.preparing(digest, *command) as running:
            out, err = running.namespaces.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(command, running.namespaces.returncode, out, err)

    @contextmanager
    def preparing(self, digest: str, *command: str) -> Iterator[Running]:
        """Start a prepare job."""
        ours = {"/.gpu-runtime": (self.path("bundle"), "ro"), "/workspace": (self.path("workspace"), "rw")}
        mounts = {**ours, **self.volumes}
        self.env["GPU_RUNTIME_PREPARE_DIGEST"] = digest
        with self.started([*UNDER_TINI, "/.gpu-runtime/libexec/prepare", *command], mounts) as running:
            yield running

    @contextmanager
    def main(self, *command: str) -> Iterator[Running]:
        """Start the unit's own container in mode `workload`, after `accounts`; wait for its sshd where it has one."""
        self.made_accounts()
        mounts = {**self.tools, **self.login, "/.gpu-runtime-exit": (self.path("exit"), "rw"), **self.volumes}
        with self.started([*UNDER_TINI, "/.gpu-runtime/libexec/launch", *command], mounts) as running:
            if self.env.get("GPU_RUNTIME_SSH_USER"):
                until(running.answers)
            yield running

    def made_accounts(self) -> None:
        """Run init container `accounts`, which must succeed."""
        made = self.accounts()
        assert made.returncode == 0, made.stderr

    @property
    def tools(self) -> dict[str, tuple[Path, str]]:
        """What our launcher needs in a container."""
        return {
            "/.gpu-runtime": (self.path("bundle"), "ro"),
            "/.gpu-runtime-run": (self.path("run"), "rw"),
            "/etc/profile.d/zz-gpu-runtime.sh": (self.path("accounts") / "profile.sh", "ro"),
        }

    @property
    def login(self) -> dict[str, tuple[Path, str]]:
        """What an sshd needs in a container."""
        accounts = self.path("accounts")
        return {
            "/.gpu-runtime-host": (self.path("host"), "ro"),
            "/.gpu-runtime-keys": (self.path("keys"), "ro"),
            "/etc/passwd": (accounts / "passwd", "ro"),
            "/etc/group": (accounts / "group", "ro"),
            HOME: (self.path("home"), "rw"),
        }

    def run(self, argv: list[str], mounts: Mounts, root: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a container to its end."""
        with self.started(argv, mounts, root) as running:
            out, err = running.namespaces.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(argv, running.namespaces.returncode, out, err)

    @contextmanager
    def started(self, argv: list[str], mounts: Mounts, root: Path | None = None) -> Iterator[Running]:
        """Start a container on the user's image (or *root*); at the end nothing of it is left."""
        places = {target: (str(source), mode) for target, (source, mode) in mounts.items()}
        who = {"uid": self.uid, "group": GROUP, "read_only": self.read_only_root}
        place = str(root or self.image or self.path("image"))
        spec = who | {"root": place, "mounts": places, "argv": argv, "env": self.env}
        enter = [sys.executable, "-S", "-E", str(Path(__file__).with_name("enter.py")), json.dumps(spec)]
        fresh = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child"]
        process = subprocess.Popen(
            [*fresh, *enter], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        with process:
            running = Running(process)
            try:
                yield running
            finally:
                running.kill()


class Client:
    """Someone with the key *name*, who logs in from the container's own network, as the tunnel does."""

    there = f"{USER}@127.0.0.1"

    def __init__(self, keys: Path, running: Running, name: str = USER) -> None:
        options = ["BatchMode=yes", "ConnectTimeout=5", "IdentitiesOnly=yes", "LogLevel=ERROR"]
        options += [f"UserKnownHostsFile={keys / 'known_hosts'}", "StrictHostKeyChecking=yes"]
        self.running = running
        self.options = ["-F", "none", "-i", str(keys / name), *(word for option in options for word in ("-o", option))]

    def ssh(self, *command: str, user: str = USER, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """Run *command* over SSH."""
        return self.running.in_network("ssh", *self.options, *options, "-p", "2222", f"{user}@127.0.0.1", *command)

    def fed(self, stdin: str, *command: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """Run *command* over SSH with *stdin*."""
        argv = ("ssh", *self.options, *options, "-p", "2222", self.there, *command)
        return self.running.in_network(*argv, stdin=stdin)

    def scp(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run scp; `there` stands before the colon of remote paths."""
        return self.running.in_network("scp", "-q", *self.options, "-P", "2222", *words)

    @contextmanager
    def kept(self, *command: str, options: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
        """Hold a session open, its standard streams in the caller's hands."""
        argv = self.running.argv("ssh", *self.options, *options, "-p", "2222", self.there, *command)
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            try:
                yield process
            finally:
                process.kill()

    def sftp(self, batch: str) -> subprocess.CompletedProcess[str]:
        """Run sftp commands."""
        target = ["-P", "2222", f"{USER}@127.0.0.1"]
        return self.running.in_network("sftp", *self.options, "-b", "-", *target, stdin=batch)
