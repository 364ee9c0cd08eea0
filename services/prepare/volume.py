"""What copies and downloads share: where they put what is not done yet, and how they end."""

import errno
import shutil
from pathlib import Path

STATE = ".gpu-runtime"
"""Folder in a volume's root that is the platform's: the marker, and what is not done yet."""

SHOWN = 3
"""Names in a message; more only hide the sentence."""


class PrepareError(Exception):
    """The volume cannot be filled; the message says why, for people."""


def workplace(root: Path, name: str, *, fresh: bool) -> Path:
    """Give folder *name* for what is not done yet: in the volume *root*, so that a rename ends it; empty if *fresh*."""
    folder = root / STATE / name
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def why(error: OSError, root: Path) -> str:
    """Say what an error of the file system means for the volume at *root*."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"the volume is full ({readable(shutil.disk_usage(root).total)}); make the storage larger"
    return f"{error.strerror or error}: {shown(str(error.filename))}" if error.filename else str(error)


def shown(name: str) -> str:
    """Write a file's name so that it cannot play tricks with a terminal."""
    return ascii(name)


def readable(amount: float) -> str:
    """Write an amount of bytes for people."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:  # noqa: PLR2004 - the step between these units
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
