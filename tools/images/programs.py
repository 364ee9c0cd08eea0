"""Our own programs in C, static, as the bundle's other programs are."""

from pathlib import Path

from tools import toolchain
from tools.images.debian import BUILD_PACKAGES
from tools.images.store import step, work_folder


def make_programs(recipe: Path, into: Path) -> None:
    """Fill *into* with our own static programs, by the script in folder *recipe*."""
    toolchain.ensure_debian(*BUILD_PACKAGES)
    with work_folder(into / "work") as work:
        step([recipe / "build", work, into], "programs build")
