"""PID 1 of a rig: set its namespaces up, start its programs in order, reap orphans, end when any program ends.

Started as a script with the standard library alone: it replaces /var under its own feet, so nothing is imported later.
When it ends, the kernel ends every process of the rig with it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

START_SECONDS = 90.0
"""A step is repeated for so long; on a slow machine the API server alone takes half a minute."""

RETRY_SECONDS = 0.3
"""Between two tries of a step: kubectl's own start costs a third of that on a core that the API server needs."""

POLL_SECONDS = 0.05
"""How soon a path that a program waits for is seen."""

TAKING_OVER = "here\n"
"""Said on standard output once the namespaces exist; the host then makes the link and answers `go`."""

GO = "go\n"


class Supervisor:
    """Run the components of a plan until one of them ends."""

    def __init__(self, plan: dict[str, Any], inside: Path, logs: Path) -> None:
        self.environment: dict[str, str] = plan["environment"]
        self.waiting: list[dict[str, Any]] = list(plan["components"])
        self.running: dict[int, dict[str, Any]] = {}
        self.done: list[str] = []
        self.inside, self.logs = inside, logs
        self.deadline = time.monotonic() + START_SECONDS
        self.began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def run(self) -> str:
        """Supervise; return why the rig ends."""
        while True:
            if reason := self._start_due() or self._reap():
                return reason
            # Programs end rarely; while some wait for a path, look often.
            signal.sigtimedwait([signal.SIGCHLD], POLL_SECONDS if self.waiting else 60.0)

    def _start_due(self) -> str | None:
        due = [component for component in self.waiting if all(self._met(need) for need in component["after"])]
        for component in due:
            self.waiting.remove(component)
            self.running[self._spawn(component)] = component
        if due:
            self._tell()
        if self.waiting and time.monotonic() > self.deadline:
            names = ", ".join(component["name"] for component in self.waiting)
            return f"{names} could not start within {START_SECONDS:.0f} s"
        return None

    def _met(self, need: str) -> bool:
        return Path(need).exists() if need.startswith("/") else need in self.done

    def _spawn(self, component: dict[str, Any]) -> int:
        log, argv = str(self.logs / f"{component['name']}.log"), component["argv"]
        files = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        return os.posix_spawn(argv[0], argv, self.environment, file_actions=files, setsigmask=[])

    def _reap(self) -> str | None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return None
            if pid == 0:
                return None
            component = self.running.pop(pid, None)
            if component is not None and (reason := self._ended(component, os.waitstatus_to_exitcode(status))):
                return reason

    def _ended(self, component: dict[str, Any], code: int) -> str | None:
        if not component["step"]:
            how = f"signal {-code}" if code < 0 else f"status {code}"
            return f"{component['name']} ended with {how}"
        if code == 0:
            self.done.append(component["name"])
            self._tell()
        elif time.monotonic() < self.deadline:
            time.sleep(RETRY_SECONDS)
            self.waiting.append(component)
        else:
            return f"{component['name']} did not succeed within {START_SECONDS:.0f} s"
        return None

    def _tell(self) -> None:
        progress = {
            "began": self.began,
            "running": [component["name"] for component in self.running.values() if not component["step"]],
            "waiting": [component["name"] for component in self.waiting],
            "done": self.done,
        }
        write(self.inside / "progress.json", progress)


def write(path: Path, value: object) -> None:
    """Write a file that is either whole or not there."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(value))
    fresh.replace(path)


def take_over(log: Path) -> bool:
    """Tell the host that the namespaces exist, wait for its answer, then speak to the log alone."""
    sys.stdout.write(TAKING_OVER)
    sys.stdout.flush()
    going = sys.stdin.readline() == GO
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    return going


def set_up(commands: list[list[str]]) -> str | None:
    """Run the commands in order; return what failed."""
    for argv in commands:
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        if done.returncode:
            return f"`{' '.join(argv)}` failed: {done.stderr.strip()}"
    return None


def supervise(plan: dict[str, Any], inside: Path, logs: Path) -> str:
    """Run the plan's components until the rig must end; return why."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    try:
        return Supervisor(plan, inside, logs).run()
    except OSError as error:
        return f"a program could not be started: {error}"


def main(folder: str) -> int:
    """Run the rig whose state lies in *folder*, a path of the host."""
    before = Path(folder) / "var"
    if not take_over(before / "log/rig/rig.log"):
        return 1
    plan = json.loads((before / "lib/rig/plan.json").read_text())
    inside, logs = Path("/var/lib/rig"), Path("/var/log/rig")
    reason = set_up(plan["setup"]) or supervise(plan, inside, logs)
    sys.stderr.write(f"{reason}\n")
    # A failed set-up may not have reached the rig's own /var yet; both paths are then the host's.
    write((inside if inside.joinpath("plan.json").exists() else before / "lib/rig") / "ended.json", {"reason": reason})
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
