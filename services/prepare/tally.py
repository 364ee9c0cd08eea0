"""Whether a copy has all that its source has, counted and compared entry by entry."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prepare.volume import STATE, readable

LEFT_OUT = frozenset({STATE, "lost+found"})
"""In a volume's root: what is the platform's, and what is the file system's."""


@dataclass
class Tally:
    """What was found in a source, and whether the copy has it."""

    files: int = 0
    folders: int = 0
    links: int = 0
    size: int = 0
    """Bytes of the files."""
    copied: int = 0
    """Bytes of the files that the copy has."""
    wrong: list[str] = field(default_factory=list)
    """Paths that the copy lacks or has otherwise."""

    @property
    def text(self) -> str:
        """Say it for people."""
        return f"{self.files} files, {self.folders} folders, {self.links} links, {readable(self.size)} ({self.size})"


def entries(root: Path) -> list[str]:
    """Name what is to be copied in the root of a volume."""
    return sorted(here.name for here in root.iterdir() if here.name not in LEFT_OUT)


def compare(source: Path, target: Path) -> Tally:
    """Count what *source* has and find each of it in *target*; what *target* has beside that is not looked at."""
    tally = Tally()
    for path in _walk(source):
        original = _status(source / path)
        if original is None or not _count(tally, original, source / path, target / path):
            tally.wrong.append(str(path))
    return tally


def _walk(root: Path) -> Iterator[Path]:
    """Yield each path below *root*, folders first, without following links."""
    waiting = [Path(name) for name in entries(root)]
    while waiting:
        path = waiting.pop()
        yield path
        here = root / path
        if here.is_dir() and not here.is_symlink():
            waiting.extend(path / inner.name for inner in here.iterdir())


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _count(tally: Tally, original: os.stat_result, source: Path, target: Path) -> bool:
    """Add one entry of the source; say whether the copy has the same."""
    mode, copy = original.st_mode, _status(target)
    is_file, is_folder, is_link = stat.S_ISREG(mode), stat.S_ISDIR(mode), stat.S_ISLNK(mode)
    tally.files += is_file
    tally.folders += is_folder
    tally.links += is_link
    tally.size += original.st_size if is_file else 0
    if not (is_file or is_folder or is_link):
        return True  # sockets, pipes and devices are no data
    if copy is None or stat.S_IFMT(copy.st_mode) != stat.S_IFMT(mode):
        return False
    if is_file:
        tally.copied += copy.st_size
        return (copy.st_size, int(copy.st_mtime)) == (original.st_size, int(original.st_mtime))
    return is_folder or source.readlink() == target.readlink()
