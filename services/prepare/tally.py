"""Whether a copy has all that its source has, counted and compared entry by entry."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prepare.volume import STATE, readable

LEFT_OUT = frozenset({STATE, "lost+found"})
"""In a volume's root: what is the platform's, and what is the file system's."""


MOST_NAMED = 100
"""Names that are kept of what is wrong: a copy of millions of files may lack all."""


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
    lacking: int = 0
    """Entries that the copy lacks or has otherwise."""
    wrong: list[str] = field(default_factory=list)
    """Paths of the first of these."""

    @property
    def text(self) -> str:
        """Say it for people."""
        return f"{self.files} files, {self.folders} folders, {self.links} links, {readable(self.size)} ({self.size})"

    def lack(self, path: Path) -> None:
        """Take note that the copy lacks an entry, or has another."""
        self.lacking += 1
        if len(self.wrong) < MOST_NAMED:
            self.wrong.append(str(path))


def entries(root: Path) -> list[str]:
    """Name what is to be copied in the root of a volume."""
    return sorted(here.name for here in root.iterdir() if here.name not in LEFT_OUT)


def compare(source: Path, target: Path) -> Tally:
    """Count what *source* has and find each of it in *target*; what *target* has beside that is not looked at."""
    tally = Tally()
    for path in _walk(source):
        original = _status(source / path)
        if original is None or not _count(tally, original, source / path, target / path):
            tally.lack(path)
    return tally


def _walk(root: Path) -> Iterator[Path]:
    """Yield each path below *root*, folders first, without following links; only folders are kept in mind meanwhile."""
    waiting = [Path()]
    while waiting:
        folder = waiting.pop()
        try:
            inside = os.scandir(root / folder)
        except (FileNotFoundError, NotADirectoryError):
            yield folder  # it was there, and whoever looks for it now finds that it is not
            continue
        with inside:
            for here in inside:
                if folder.name or here.name not in LEFT_OUT:
                    yield folder / here.name
                    waiting.extend([folder / here.name] if here.is_dir(follow_symlinks=False) else [])


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
