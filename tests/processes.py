"""What the kernel tells of a process of this machine."""

from contextlib import suppress
from pathlib import Path


def has_open(process: int, file: Path) -> bool:
    """Say whether a process has *file* open."""
    for one in Path(f"/proc/{process}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile, or no file
            if one.samefile(file):
                return True
    return False
