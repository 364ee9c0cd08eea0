"""Processes of a rig: found by its control groups, ended through pid file descriptors, measured."""

import contextlib
import os
import signal
import time
from pathlib import Path

from tools.rig import cgroups
from tools.rig.errors import RigError

KILL_SECONDS = 60
"""SIGKILL acts at once, except on a process in disk sleep; a hundred of them on a loaded disk took longer than 20 s."""


def first_process(groups: list[Path]) -> int | None:
    """Return the host's number of the rig's PID 1, or None when it is not alive."""
    depth = len(_namespaced_pids("self")) + 1
    for pid in cgroups.pids(groups[:1]):  # all joined the first before any other
        numbers = _namespaced_pids(str(pid))
        if len(numbers) == depth and numbers[-1] == 1:
            return pid
    return None


def end_all(groups: list[Path]) -> None:
    """Kill every process in the groups; raise RigError when some do not end."""
    deadline = time.monotonic() + KILL_SECONDS
    while found := cgroups.pids(groups):
        for pid in found:
            _kill(pid, groups)
        if time.monotonic() > deadline:
            raise RigError(f"processes do not end after SIGKILL: {found}; is a disk hanging?")
        time.sleep(0.02)


def memory(groups: list[Path]) -> int:
    """Return the bytes that the rig's processes use; memory shared by several counts once (PSS)."""
    return sum(_proportional_set_size(pid) for pid in cgroups.pids(groups[:1]))


def start_time(pid: int) -> str:
    """Return when the process began, in the kernel's ticks: with the number, its identity until the next boot."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def _kill(pid: int, groups: list[Path]) -> None:
    """Kill *pid* through a descriptor taken before membership is checked again: a reused number is never hit."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if pid in cgroups.pids(groups):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def _namespaced_pids(pid: str) -> list[int]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # ended meanwhile
        return []
    return [int(number) for line in lines if line.startswith("NSpid:") for number in line.split()[1:]]


def _proportional_set_size(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # ended meanwhile
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
