"""PID 1 of a rig, run here as a plain process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.rig import lifecycle

DRIVER = """
import sys, json
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import supervisor
supervisor.START_SECONDS, supervisor.RETRY_SECONDS = float(sys.argv[3]), 0.05
home = Path(sys.argv[1])
print(supervisor.supervise(json.loads((home / "plan.json").read_text()), home, home))
"""

SHORT = 0.6
"""Seconds, for starts that shall fail; told as 1 s."""


def component(name: str, script: str, *after: str, step: bool = False) -> dict[str, Any]:
    """Return a component that runs a shell script."""
    return {"name": name, "argv": ["/bin/sh", "-c", script], "after": list(after), "step": step}


def supervise(home: Path, *components: dict[str, Any], start_seconds: float = 15) -> str:
    """Run the supervisor, with that much patience for a start, on *components* until it ends; return its reason."""
    plan = {"environment": {"PATH": "/usr/bin:/bin", "HOME_FOLDER": str(home)}, "components": components}
    (home / "plan.json").write_text(json.dumps(plan))
    argv = [sys.executable, "-I", "-c", DRIVER, str(home), str(lifecycle.SUPERVISOR.parent), str(start_seconds)]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=20).stdout.strip()


@pytest.mark.parametrize(
    ("script", "how"), [("exit 3", "status 3"), ("exit 0", "status 0"), ("kill -9 $$", "signal 9")]
)
def test_the_end_of_any_program_ends_the_rig(tmp_path: Path, script: str, how: str) -> None:
    """A cluster without one of its programs would be half dead; even a good end of one is an end of all."""
    assert (
        supervise(tmp_path, component("long", "exec sleep 30"), component("short", script)) == f"short ended with {how}"
    )


def test_a_step_is_repeated_until_it_succeeds_and_then_others_go_on(tmp_path: Path) -> None:
    """What waits for a step starts after it succeeded, however often it failed before."""
    reason = supervise(
        tmp_path,
        component("last", "test -e $HOME_FOLDER/made && exit 7", "step"),
        component("step", 'cd $HOME_FOLDER; echo x >> tries; test "$(wc -l < tries)" -ge 3 && touch made', step=True),
    )

    assert reason == "last ended with status 7"
    assert (tmp_path / "tries").read_text() == "x\n" * 3


def test_a_path_is_waited_for(tmp_path: Path) -> None:
    """A program that needs a socket starts once it is there."""
    maker = component("maker", "sleep 0.2; touch $HOME_FOLDER/socket; exec sleep 30")

    assert (
        supervise(tmp_path, component("user", "exit 5", str(tmp_path / "socket")), maker) == "user ended with status 5"
    )


def test_a_step_that_never_succeeds_is_named(tmp_path: Path) -> None:
    """A start that cannot end well ends, and says at which step."""
    reason = supervise(tmp_path, component("api", "echo no answer; exit 1", step=True), start_seconds=SHORT)

    assert reason == "api did not succeed within 1 s"
    assert "no answer" in (tmp_path / "api.log").read_text()


def test_a_wait_in_vain_is_named(tmp_path: Path) -> None:
    """What never started is said."""
    reason = supervise(tmp_path, component("kubelet", "exit 0", "/nowhere"), start_seconds=SHORT)

    assert reason == "kubelet could not start within 1 s"


def test_orphans_are_reaped_and_end_nothing(tmp_path: Path) -> None:
    """PID 1 inherits processes that it did not start; their end is no program's end."""
    orphan = component("parent", "(sleep 0.1 &) ; sleep 0.5; exit 4")

    assert supervise(tmp_path, orphan) == "parent ended with status 4"


def test_progress_is_told(tmp_path: Path) -> None:
    """Other commands read what runs, what waits and since when."""
    supervise(tmp_path, component("late", "", "/nowhere"), component("runs", "exec sleep 30"), start_seconds=SHORT)
    progress = json.loads((tmp_path / "progress.json").read_text())

    assert (progress["running"], progress["waiting"], progress["done"]) == (["runs"], ["late"], [])
    assert progress["began"].endswith("Z")


def test_a_start_that_nobody_waits_for_ends(tmp_path: Path) -> None:
    """When the command that starts a rig is killed before the link is made, nothing of the rig goes on."""
    log = tmp_path / "var/log/rig/rig.log"
    log.parent.mkdir(parents=True)
    argv = [sys.executable, "-I", str(lifecycle.SUPERVISOR), str(tmp_path)]
    done = subprocess.run(argv, check=False, input="", capture_output=True, text=True, timeout=20)

    assert (done.returncode, done.stdout) == (1, "here\n")
    assert log.read_text() == ""
