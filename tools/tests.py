"""``python -m tools.tests``: run every test in phases, each timed; the first that fails ends the run.

The order is by cost: what fails fast is told first. Root is needed for the end, on a rig; without it that part says so.
"""

import subprocess
import sys
import time

from tools.shell import command, say

PHASES = {
    "units": ["tests", *(f"--ignore=tests/{name}" for name in ("images", "rig", "services", "tools"))],
    "tools": ["tests/tools"],
    "rig": ["tests/rig"],
    "services": ["tests/services"],
    "images": ["tests/images"],
    "end to end": ["e2e"],
}


def main() -> int:
    """Run the phases; return the exit status of the first that fails, else 0."""
    for name, arguments in PHASES.items():
        started = time.monotonic()
        say(f"--- {name}")
        status = subprocess.run([sys.executable, "-m", "pytest", "-q", *arguments], check=False).returncode
        say(f"--- {name}: {'passed' if status == 0 else 'FAILED'} in {time.monotonic() - started:.0f} s")
        if status:
            return status
    return 0


if __name__ == "__main__":
    command(main)
