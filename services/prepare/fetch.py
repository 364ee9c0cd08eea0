"""Download files, each until it has its digest."""

import hashlib
import os
import time
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from prepare.download import CutOffError, extend, plain
from prepare.volume import PrepareError, readable, shown, workplace

TRIES = 6
"""In a row without one more byte; with the waits between them some minute."""

LONGEST_WAIT = 30.0
"""Seconds between tries."""

TELL_SECONDS = 10.0
"""Between words about a download that goes on."""


@dataclass(frozen=True)
class Item:
    """A file that is wanted."""

    url: str
    sha256: str
    path: str


@dataclass
class Fetcher:
    """Downloads into one volume."""

    root: Path
    speak: urllib.request.OpenerDirector
    say: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    told_at: float = field(default=0.0)

    def all(self, items: Iterable[Item]) -> None:
        """Have all *items* there. Raises PrepareError; what is there already stays for the next try."""
        parts = workplace(self.root, "parts", fresh=False)
        for item in items:
            self._one(item, parts / item.sha256)
        workplace(self.root, "parts", fresh=True).rmdir()

    def _one(self, item: Item, part: Path) -> None:
        target = self._place(item.path)
        if target.is_file() and digest(target) == item.sha256:
            self.say(f"{item.path}: is there already")
            return
        resumed = part.exists()
        self._download(item, part)
        if (found := digest(part)) != item.sha256 and resumed:
            part.unlink()  # what was there may have been of another file
            self._download(item, part)
            found = digest(part)
        if found != item.sha256:
            size = part.stat().st_size
            part.unlink()
            raise PrepareError(
                f"{plain(item.url)} ({size} bytes) has sha256 {found}, but {item.sha256} is wanted for {item.path}"
            )
        self._put(part, target)
        self.say(f"{item.path}: {readable(target.stat().st_size)}, sha256 as wanted")

    def _place(self, path: str) -> Path:
        """Find where *path* lies; a link that a unit made may lead out of the volume."""
        target = self.root / path
        inside = target.parent.resolve().is_relative_to(self.root.resolve())
        if not inside or ".." in Path(path).parts or target.is_dir():
            raise PrepareError(f"{shown(path)} is a folder of the volume already, or a link in it leads out of it")
        return target

    def _download(self, item: Item, part: Path) -> None:
        """Try until all is there, or nothing more came for `TRIES` times."""
        fruitless = 0
        while True:
            have = part.stat().st_size if part.exists() else 0
            try:
                extend(self.speak, item.url, part, lambda at, whole: self._tell(item.path, at, whole))
            except CutOffError as error:
                fruitless = fruitless + 1 if not part.exists() or part.stat().st_size <= have else 0
                if fruitless >= TRIES:
                    raise PrepareError(f"{plain(item.url)}: {error}, {TRIES} times in a row") from None
                self.say(f"{item.path}: {error}; going on")
                self.sleep(min(2.0**fruitless, LONGEST_WAIT))
            else:
                return

    def _tell(self, path: str, at: int, whole: int | None) -> None:
        if time.monotonic() - self.told_at >= TELL_SECONDS:
            self.told_at = time.monotonic()
            self.say(f"{path}: {readable(at)}{f' of {readable(whole)}' if whole else ''}")

    def _put(self, part: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(target)


def digest(path: Path) -> str:
    """Give the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
