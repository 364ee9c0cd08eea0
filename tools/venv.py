"""The Python environment of the repository, `.venv`: exactly what requirements.lock says, and the project itself.

`python3 -m tools.venv` makes it, repairs a half-made one and does nothing when nothing changed.
"""

import hashlib
import importlib.util
import shutil
import sys
from pathlib import Path

from tools.shell import ToolError, command, locked, run_logged, say, tail

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"

PACKAGES = ("components", "policy", "stacks", "tools")
"""What the editable install maps; a folder that appears later needs the install again."""

UNREACHABLE = ("NameResolutionError", "NewConnectionError", "ConnectTimeoutError", "ProxyError", "Max retries exceeded")
"""What pip writes when it cannot talk to the package index."""


def main() -> None:
    """Bring `.venv` to the state that the lock describes."""
    packages, project = _package_stamp(), _project_stamp()
    if _stamped("packages", packages) and _stamped("project", project):
        return
    with locked(ROOT / ".venv.lock", "init"):
        if not _stamped("packages", packages):
            _install_packages(packages)
        if not _stamped("project", project):
            _install_project(project)
    say("init: .venv is ready")


def _install_packages(stamp: str) -> None:
    if importlib.util.find_spec("ensurepip") is None:
        raise ToolError(f"{sys.executable} cannot make virtual environments: install its venv package (python3-venv).")
    say("init: making .venv from requirements.lock")
    shutil.rmtree(VENV, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(VENV)], "making the environment")
    _pip("installing locked packages", "--require-hashes", "--only-binary", ":all:", "-r", "requirements.lock")
    _stamp_file("packages").write_text(stamp)


def _install_project(stamp: str) -> None:
    _pip("installing the project", "--no-deps", "--no-build-isolation", "--editable", ".")
    _stamp_file("project").write_text(stamp)


def _pip(label: str, *arguments: str) -> None:
    python = VENV / "bin" / "python"
    options = ("--disable-pip-version-check", "--no-input", "--no-compile", "--progress-bar", "off")
    _run([str(python), "-m", "pip", "install", *options, *arguments], label)


def _run(argv: list[str], label: str) -> None:
    log = ROOT / ".venv.log"
    if run_logged(argv, label=f"init: {label}", log=log, cwd=ROOT) != 0:
        raise ToolError(_failure(label, tail(log)))
    log.unlink()


def _failure(label: str, lines: list[str]) -> str:
    text = "\n".join(lines)
    if any(word in text for word in UNREACHABLE):
        return f"{label} failed: the Python package index does not answer; look at the network or pip's own settings."
    if "No space left" in text:
        return f"{label} failed: the disk is full; .venv needs 1 GB."
    return f"{label} failed; the whole log is .venv.log, its last lines:\n{text}"


def _package_stamp() -> str:
    return _digest((ROOT / "requirements.lock").read_bytes())


def _project_stamp() -> str:
    present = [name for name in PACKAGES if (ROOT / name).is_dir()]
    return _digest(_package_stamp().encode(), (ROOT / "pyproject.toml").read_bytes(), repr(present).encode())


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _stamp_file(kind: str) -> Path:
    return VENV / f".{kind}"


def _stamped(kind: str, stamp: str) -> bool:
    """Tell whether a run ended with this stamp, and the Python that it was made with is still there."""
    if not (VENV / "bin" / "python").exists():
        return False
    try:
        return _stamp_file(kind).read_text() == stamp
    except (FileNotFoundError, NotADirectoryError):
        return False


if __name__ == "__main__":
    command(main)
