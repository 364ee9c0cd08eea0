"""A program on the real engine, some of whose resources cannot be made."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.stack.engine import REPOSITORY, Engine

PROJECT = f"name: parts\nruntime: {{name: python, options: {{toolchain: pip, virtualenv: {sys.prefix}}}}}\n"
"""The engine runs the program with this very interpreter's packages."""

PROGRAM = """
import asyncio, pathlib, pulumi
from components.process import begin
begin()


def fail(_):
    raise RuntimeError("the disk is full")

def part(name, **options):
    return pulumi.Stash(name, input="", opts=pulumi.ResourceOptions(**options))

hook = pulumi.ResourceHook("fail", fail)
failing = part("failing", hooks=pulumi.ResourceHookBinding(before_create=[hook]))
for number in range(3):
    part(f"needs-it-{number}", depends_on=[failing])
stays = part("stays", depends_on=[failing] if pathlib.Path("broken").exists() else [])

async def arrive(_):
    await asyncio.sleep(1)
    pathlib.Path("arrived").touch()

other = part("other")
_ = other.urn.apply(arrive)
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """Give a stack with a program of its own."""
    (tmp_path / "Pulumi.yaml").write_text(PROJECT)
    (tmp_path / "__main__.py").write_text(PROGRAM)
    (tmp_path / "state").mkdir()
    said = {
        "PULUMI_BACKEND_URL": f"file://{tmp_path}/state",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PYTHONPATH": str(REPOSITORY),
    }
    found = Engine("test", None, said, tmp_path)
    found.output("stack", "init")
    return found


def up(engine: Engine) -> "subprocess.CompletedProcess[str]":
    """Run `pulumi up` as make does."""
    argv = [
        "pulumi",
        "up",
        "--yes",
        "--skip-preview",
        "--continue-on-error",
        "--non-interactive",
        "--stack",
        engine.stack,
    ]
    return subprocess.run(argv, cwd=engine.folder, env=engine.env(), capture_output=True, text=True, check=False)


def test_what_is_missing_is_told_in_a_line_and_the_rest_goes_on(engine: Engine) -> None:
    """The reason is told and no traceback; what is under way is waited for."""
    done = up(engine)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "the disk is full" in said
    assert "not everything was made" in said
    assert "Traceback" not in said
    assert (engine.folder / "arrived").exists()


def test_what_is_not_registered_stays(engine: Engine) -> None:
    """A resource whose need fails in a later run is kept: the run fails, and the engine deletes nothing."""
    up(engine)
    (engine.folder / "broken").touch()
    up(engine)
    assert "Stash::stays" in engine.output("stack", "export")
