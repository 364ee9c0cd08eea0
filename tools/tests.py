"""``python -m tools.tests [PHASE...]``: run tests in phases, each timed; the first phase that fails ends the run.

The order is by cost: what fails fast is told first. Root is needed for the end, on a rig; without it that part says so.
"""

import argparse
import os
import subprocess
import sys
import time

from tools.shell import command, say

WORKERS = f"--numprocesses={min(2, os.cpu_count() or 1)}"
"""More at once would make what waits for something wait too long; each end-to-end one has a rig of 1.5 GiB."""

PHASES = {
    "units": ["tests", WORKERS, *(f"--ignore=tests/{name}" for name in ("images", "rig", "services", "tools"))],
    "tools": ["tests/tools"],
    "rig": ["tests/rig"],
    "services": ["tests/services", WORKERS],
    "images": ["tests/images", WORKERS],
    "e2e": ["e2e", "-vv", WORKERS, "--no-loadscope-reorder"],  # told one by one: they are long
}


def main() -> int:
    """Run the phases; return the exit status of the first that fails, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tools.tests", description=__doc__)
    parser.add_argument("phases", nargs="*", metavar="PHASE", help=f"run these alone, of {', '.join(PHASES)}")
    for name in parser.parse_args().phases or PHASES:
        if name not in PHASES:
            parser.error(f"there is no phase {name}; there are {', '.join(PHASES)}")
        started = time.monotonic()
        say(f"--- {name}")
        status = subprocess.run([sys.executable, "-m", "pytest", "-q", *PHASES[name]], check=False).returncode
        say(f"--- {name}: {'passed' if status == 0 else 'FAILED'} in {time.monotonic() - started:.0f} s")
        if status:
            return status
    return 0


if __name__ == "__main__":
    command(main)
