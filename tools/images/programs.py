"""Our own programs in C, static as the bundle's other programs are, and the proxy's module."""

from pathlib import Path

from tools import toolchain
from tools.images.debian import BUILD_PACKAGES
from tools.images.store import step, work_folder


def make_programs(recipe: Path, into: Path) -> None:
    """Fill *into* with our own static programs, by the script in folder *recipe*."""
    toolchain.ensure_debian(*BUILD_PACKAGES)
    with work_folder(into / "work") as work:
        step([recipe / "build", work, into], "programs build")


def make_module(recipe: Path, into: Path) -> None:
    """Fill *into* with the module of Envoy that the script in folder *recipe* makes."""
    toolchain.ensure_debian(*BUILD_PACKAGES)
    step([recipe / "build", into], "module build")
