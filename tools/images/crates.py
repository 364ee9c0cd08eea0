"""Programs from the crates registry, static: the version of tools/versions.toml, built with the crate's own lock."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from tools import toolchain
from tools.images import debian
from tools.images.store import key_of, step, work_folder
from tools.shell import ToolError, say

COMPILER_PACKAGES = {"bookworm": ("cargo-web",)}
"""Debian release → what brings a cargo of today, where the package of that name is too old for us."""

DEBIAN_CARGO = Path("/usr/bin/cargo")

STATIC = "-C target-feature=+crt-static"
"""glibc within: the program resolves no name and loads no plugin, which is all that a static glibc cannot do."""

FEATURES = ("--no-default-features",)
"""TLS is the proxy's."""

LINKER_PACKAGES = ("gcc", "libc6-dev")
"""What rustc needs of Debian for the last step."""


def key(crate: str) -> str:
    """Return one key for all that decides how *crate* comes out, but for the compiler's version."""
    return key_of(_pinned(crate), debian.codename(), platform.machine(), STATIC, *FEATURES)


def install(crate: str, into: Path) -> None:
    """Build the pinned version of *crate* and put its program, called like it, into folder *into*.

    Raises ToolError where there is no cargo that can, or the build fails.
    """
    cargo = _cargo()
    toolchain.ensure_debian(*LINKER_PACKAGES)
    with work_folder(into / "work") as work:
        # a target, though it is this machine's own: else the flags would reach macros, which are libraries
        target = f"--target={_said(cargo, 'host')}"
        what = [crate, f"--version=={_pinned(crate)}", "--locked", *FEATURES, target]
        where = [f"--root={work / 'root'}", "--no-track"]
        step([cargo, "install", *what, *where], f"{crate} build", env=_environment(cargo, work))
        shutil.copy(work / "root/bin" / crate, into / crate)


def _environment(cargo: Path, work: Path) -> dict[str, str]:
    """Return the caller's environment with our flags in place of theirs, and the compiler that belongs to *cargo*."""
    ours = {"RUSTFLAGS": STATIC, "RUSTC": str(cargo.with_name("rustc")), "CARGO_TARGET_DIR": str(work / "target")}
    return {name: value for name, value in os.environ.items() if name != "CARGO_ENCODED_RUSTFLAGS"} | ours


def _pinned(crate: str) -> str:
    return toolchain.versions()["files"][crate]


def _cargo() -> Path:
    """Find a cargo that is new enough; where there is none, take Debian's. Raises ToolError when that is too old."""
    minimum = toolchain.versions()["rust"]["minimum"]
    if found := _new_enough(minimum):
        return found
    packages = COMPILER_PACKAGES.get(debian.codename(), ("cargo",))
    say(f"images: no cargo of Rust {minimum} or newer is on PATH; taking that of Debian ({', '.join(packages)})")
    toolchain.ensure_debian(*packages)
    if found := _new_enough(minimum):
        return found
    here = f"neither PATH nor Debian {debian.codename()} has one"
    raise ToolError(f"this is built with cargo of Rust {minimum} or newer, and {here}: install a newer Rust")


def _new_enough(minimum: str) -> Path | None:
    """Return the first cargo, of PATH or of Debian, whose Rust is *minimum* or newer."""
    own = shutil.which("cargo")
    programs = [cargo for cargo in (Path(own) if own else DEBIAN_CARGO, DEBIAN_CARGO) if os.access(cargo, os.X_OK)]
    return next((cargo for cargo in programs if _numbers(_said(cargo, "release")) >= _numbers(minimum)), None)


def _said(cargo: Path, what: str) -> str:
    """Return one line of what *cargo* says of itself; nothing where it cannot even say that."""
    done = subprocess.run([cargo, "--version", "--verbose"], capture_output=True, text=True, check=False)
    found = re.search(rf"^{what}: (\S+)$", done.stdout, re.MULTILINE)
    return found[1] if found else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))
