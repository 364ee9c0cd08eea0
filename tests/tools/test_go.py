import shutil
import subprocess

import pytest

from tools.toolchain.table import GO_MODULES

pytestmark = pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")


def test_go_sources_are_formatted() -> None:
    """Our Go reads as all Go does."""
    assert subprocess.run(["gofmt", "-l", GO_MODULES], capture_output=True, text=True, check=True).stdout == ""


@pytest.mark.parametrize(("module", "package"), [("kubernetes", "deviceplugin"), ("pulumi", "language-python")])
def test_go_programs_of_ours(module: str, package: str) -> None:
    """The tests beside our own Go programs hold; built as the programs are, so that both share Go's cache."""
    argv = ["go", "test", "-trimpath", f"./{package}"]
    done = subprocess.run(argv, cwd=GO_MODULES / module, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
