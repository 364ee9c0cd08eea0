"""A rig: one Kubernetes node in namespaces of its own, kept by name between commands."""

import subprocess
import time
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from tools.rig import cgroups, components, enforcement, health, images, lifecycle, making, preflight, processes
from tools.rig.errors import RigError
from tools.rig.network import Network
from tools.rig.state import Folder, Record, checked_name, locked, rigs_folder, write_json
from tools.shell import say, tail

READY_SECONDS = 120.0
"""Ready takes under 15 s here; a loaded machine gets eight times that before the start counts as failed."""

HEALTHY_SECONDS = 10.0
"""What a rig that was ready once gets to be so again before it counts as half dead."""

SAY_SECONDS = 4.0
"""Longest silence while waiting."""


@dataclass(frozen=True)
class Status:
    """How a rig is; `state` is absent, running, starting, sick (with what is missing) or stopped (with why)."""

    state: str
    detail: str = ""


class Rig:
    """The rig called *name*. A method that cannot do its work raises RigError, a sentence fit for a terminal."""

    def __init__(self, name: str) -> None:
        self.name = checked_name(name)
        self.folder = Folder(rigs_folder() / name)
        self.link = f"rig-{name}"
        self.fresh: bool | None = None
        """After `up`: whether it made a new cluster (True), or went on with one that was there (False)."""
        self._began = time.monotonic()

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig, context `rig-<name>`."""
        return self.folder.kubeconfig

    @property
    def network(self) -> Network:
        """Return the rig's addresses."""
        return self._record().network

    @property
    def node_ip(self) -> IPv4Address:
        """Return the address at which the host reaches the API server and node ports."""
        return self.network.node_ip

    @property
    def identity(self) -> str | None:
        """Return the uid of the cluster, another one after `down` and `up`; None while it does not answer."""
        return health.identity(self._api())

    @property
    def memory(self) -> int:
        """Return the bytes of memory that all processes of the rig use together."""
        return processes.memory(self._groups())

    def up(self, *, fresh: bool = False) -> "Rig":
        """Make the rig run: leave a healthy one alone, start an ended one again on its data (unless *fresh*)."""
        preflight.require_root_on_linux()
        self._began = time.monotonic()
        with locked(self.folder.path, f"rig {self.name}"):
            if fresh or not self._goes_on():
                self._start(fresh=fresh)
                self._wait_ready(READY_SECONDS)
        return self

    def down(self) -> None:
        """Remove the rig and everything it made, its data included, and verify that nothing is left."""
        preflight.require_root_on_linux()
        with locked(self.folder.path, f"rig {self.name}"):
            groups = self._all_groups(self.folder.read_if_sound())
            lifecycle.end(self.link, groups)
            self.folder.remove()
            if left := lifecycle.leftovers(self.link, groups, self.folder):
                raise RigError(f"rig {self.name} left something behind: {', '.join(left)}; run down again")
        self._say("down; nothing is left of it")

    def status(self) -> Status:
        """Return how the rig is, without changing anything."""
        record = self.folder.read()
        if record is None:
            return Status("absent")
        if processes.first_process(self._groups()) is None:
            return Status("stopped", self._why_ended())
        missing = health.missing(self._api(), self.name, self.folder) or enforcement.missing(self)
        if not self._was_ready():
            return Status("starting", f"waiting for {', '.join(missing) or 'the command that began it'}")
        return Status("sick", f"missing: {', '.join(missing)}") if missing else Status("running")

    def load(self, *archives: Path) -> list[str]:
        """Bring OCI or docker image archives in, those already there excepted; return references by digest for pods."""
        ctr = lifecycle.enter(self._first_process(), f"{components.BIN}/ctr", "--namespace=k8s.io")
        return [reference for archive in archives for reference in images.load(archive, ctr)]

    def exec(
        self, *argv: str, stdin: str | None = None, check: bool = True, timeout: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run *argv* as root in the rig's namespaces, *stdin* as its input; the rest is as in subprocess.run."""
        command = lifecycle.enter(self._first_process(), *argv)
        return subprocess.run(command, check=check, input=stdin, timeout=timeout, capture_output=True, text=True)

    def components(self) -> list[str]:
        """Return the programs that run."""
        return health.running(self.folder)

    def _goes_on(self) -> bool:
        """Tell whether a rig that is there can be kept, after waiting for one that is still starting."""
        match self.status():
            case Status("running"):
                self._say(f"already running, {self._size()}")
            case Status("starting", detail):
                self._say(f"an earlier command began to start it; {detail}")
                self._wait_ready(READY_SECONDS)
            case Status("sick", detail):
                self._say(f"not healthy, {detail}")
                return self._recovers()
            case Status(_):
                return False
        self.fresh = False
        return True

    def _recovers(self) -> bool:
        try:
            self._wait_ready(HEALTHY_SECONDS)
            if enforcement.missing(self):  # a killed test left it so
                enforcement.put_back(self)
        except RigError as error:
            self._say(f"half dead: {error}")
            return False
        self.fresh = False
        return True

    def _start(self, *, fresh: bool) -> None:
        """Start the rig on kept data or on none, from whatever state is there."""
        preflight.check(self.folder.path)
        programs = making.programs()
        kept = self._clear_up(fresh=fresh)
        self.fresh = kept is None
        making.make(self.name, self.folder, self.link, kept, programs)
        self._say("a new cluster" if self.fresh else "the cluster of before, on its kept data")

    def _clear_up(self, *, fresh: bool) -> Record | None:
        """Remove what an ended run left; return its record when its data is kept."""
        record = self.folder.read()
        groups = self._all_groups(record)
        if record or groups:
            why = "it does not recover" if processes.first_process(groups) else self._why_ended()
            self._say("starting over: all data goes" if fresh else f"found in pieces ({why}): clearing up")
        lifecycle.end(self.link, groups)
        if fresh or not self.folder.holds_cluster:
            self.folder.discard()
            return None
        self.folder.forget_run()
        return record

    def _all_groups(self, record: Record | None) -> list[Path]:
        """Return the rig's cgroups, also those that only their name shows to be its own: records get lost."""
        return sorted({*(record.cgroups if record else ()), *cgroups.find(self.name)})

    def _wait_ready(self, seconds: float) -> None:
        """Wait until nothing is missing; raise RigError when the rig ends or the time is over."""
        api, began, said = self._api(), time.monotonic(), time.monotonic()
        last: list[str] = []
        while missing := health.missing(api, self.name, self.folder):
            if processes.first_process(self._groups()) is None:
                raise RigError(f"rig {self.name} ended while it started: {self._why_ended(lines=8)}")
            if time.monotonic() - began > seconds:
                lacks = f"{', '.join(missing)} missing; logs: {self.folder.logs}"
                raise RigError(f"rig {self.name} is not ready after {seconds:.0f} s: {lacks}")
            if missing != last or time.monotonic() - said > SAY_SECONDS:
                self._say(f"waiting for {', '.join(missing)}")
                last, said = missing, time.monotonic()
            time.sleep(0.1)
        pid = self._first_process()
        write_json(self.folder.ready, {"pid": pid, "start": processes.start_time(pid)})
        self._say(f"ready, {self._size()}")

    def _was_ready(self) -> bool:
        """Tell whether the process that runs now is one that was seen ready."""
        pid = processes.first_process(self._groups())
        return pid is not None and health.read_json(self.folder.ready) == {
            "pid": pid,
            "start": processes.start_time(pid),
        }

    def _why_ended(self, *, lines: int = 0) -> str:
        ended = health.read_json(self.folder.inside / "ended.json")
        if ended is None:
            return "it ended without a word: killed, or the machine was restarted"
        reason = str(ended["reason"])
        last = tail(self.folder.logs / f"{reason.split(maxsplit=1)[0]}.log", lines) if lines else []
        return "\n  ".join([reason, *last])

    def _size(self) -> str:
        return f"{self.memory / 2**20:.0f} MiB, node {self.node_ip}, {components.GPUS} simulated GPUs"

    def _first_process(self) -> int:
        pid = processes.first_process(self._groups())
        if pid is None:
            raise RigError(f"rig {self.name} does not run: start it with `python -m tools.rig up {self.name}`")
        return pid

    def _record(self) -> Record:
        record = self.folder.read()
        if record is None:
            raise RigError(f"there is no rig {self.name}: make it with `python -m tools.rig up {self.name}`")
        return record

    def _groups(self) -> list[Path]:
        return list(self._record().cgroups)

    def _api(self) -> health.Api:
        return health.Api(self.folder, self.network)

    def _say(self, message: str) -> None:
        say(f"rig {self.name}: {time.monotonic() - self._began:5.1f} s  {message}")
