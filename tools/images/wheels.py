"""Python packages for the images of services: what requirements.lock pins, by hash, and nothing else."""

import re
import subprocess
import sys
from pathlib import Path

from tools import toolchain
from tools.images.store import step
from tools.shell import ToolError

LOCK = Path(__file__).parents[2] / "requirements.lock"

SYSTEM_PYTHON = "/usr/bin/python3"
"""Debian's own, of the release that images are made of as well: packages must be of its version, not of ours."""

OPTIONS = ("--disable-pip-version-check", "--no-input", "--no-compile", "--no-warn-conflicts", "--progress-bar", "off")


def pinned(*names: str, lock: Path = LOCK) -> str:
    """Return the lines of *lock* that pin the packages *names*, with their hashes.

    Raises ToolError for a name that it does not pin. What they need themselves must be named, too.
    """
    stanzas = re.split(r"^(?=[a-z0-9])", lock.read_text(), flags=re.MULTILINE)
    found = {stanza.partition("==")[0]: stanza for stanza in stanzas if "==" in stanza}
    if missing := sorted(set(names) - set(found)):
        raise ToolError(f"{lock.name} pins no {', '.join(missing)}; add it to pyproject.toml and run `make lock`")
    return "".join(found[name] for name in names)


def python_version() -> str:
    """Return the version of Debian's Python, as in 3.11."""
    toolchain.ensure_debian("python3")
    say = "import sys; print('{}.{}'.format(*sys.version_info))"
    return subprocess.run([SYSTEM_PYTHON, "-c", say], check=True, capture_output=True, text=True).stdout.strip()


def install(names: tuple[str, ...], into: Path) -> None:
    """Unpack the packages *names* into the folder *into*; nothing of theirs is run."""
    asked = into / "requirements.txt"
    asked.write_text(pinned(*names))
    pip = [sys.executable, "-m", "pip", "install", *OPTIONS, "--require-hashes", "--no-deps", "--only-binary", ":all:"]
    where = ["--python-version", python_version(), "--target", str(into), "--requirement", str(asked)]
    step([*pip, *where], f"packages {', '.join(names)}")
    asked.unlink()
