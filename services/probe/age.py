"""How old this process is: a start-up window is counted from the kernel's start of it, before Python's own."""

import os
import time
from pathlib import Path

_START_FIELD = 19
"""Of /proc/self/stat behind the name in brackets: the start in clock ticks since boot."""


def _started() -> float:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")


_STARTED = _started()


def age() -> float:
    """Give the seconds since the start of this process."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - _STARTED
