"""The command line and the refusals that come before anything is done."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.rig import RigError, preflight

ROOT = Path(__file__).parents[2]


def rig(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command with rigs of its own."""
    argv = [sys.executable, "-m", "tools.rig", *words]
    environment = {"PATH": "/usr/bin:/bin", "GPU_RUNTIME_RIGS": str(folder / "rigs")}
    return subprocess.run(argv, check=False, capture_output=True, text=True, cwd=ROOT, env=environment)


def test_an_absent_rig_is_no_mistake_to_look_at(tmp_path: Path) -> None:
    """`status` says so with the exit status of service managers, and makes nothing."""
    done = rig("status", "x", folder=tmp_path)

    assert (done.returncode, done.stdout) == (3, "rig x: absent\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("kubeconfig", "x"), ("load", "x", "/nowhere.tar"), ("up", "Not_A_Name")])
def test_refusals_are_one_sentence(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A mistake ends with one line on standard error and never with a traceback."""
    done = rig(*words, folder=tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_not_root_is_said_with_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """One message has all that is missing, in words of Debian packages."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)

    with pytest.raises(RigError, match=r"needs root.*conntrack.*nftables"):
        preflight.require_root_on_linux()


def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on Linux nothing is tried."""
    monkeypatch.setattr("sys.platform", "darwin")

    with pytest.raises(RigError, match="needs Linux, this is darwin"):
        preflight.require_root_on_linux()


def test_all_shortages_are_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Disk and memory are looked at where the rig will be, also before its folder exists."""
    monkeypatch.setattr(preflight, "DISK_BYTES", 2**60)
    monkeypatch.setattr(preflight, "MEMORY_BYTES", 2**60)
    disk, memory = preflight.short_resources(tmp_path / "not" / "yet")

    assert str(tmp_path) in disk
    assert "memory" in memory
