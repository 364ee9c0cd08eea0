"""What is made once and kept: folders in the cache, named by a hash of everything that went into them."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.shell import ToolError, cache_dir, locked, run_logged, tail

KEPT = 4
"""So many versions of one thing stay, for a switch of branches and for what a running command still reads."""

KEY_LENGTH = 16
"""Hex digits of a key in a folder's name: enough that two inputs never meet, short enough to read."""


def store() -> Path:
    """Return the folder of everything that this package keeps."""
    return cache_dir() / "images"


def key_of(*inputs: str | bytes) -> str:
    """Return one key for *inputs*; no two different rows of inputs share one."""
    digest = hashlib.sha256()
    for item in inputs:
        data = item.encode() if isinstance(item, str) else item
        digest.update(len(data).to_bytes(8))
        digest.update(data)
    return digest.hexdigest()[:KEY_LENGTH]


def key_of_files(*paths: Path) -> str:
    """Return one key for the content, names and executable bits of *paths*, folders with all that is in them."""
    return key_of(*(item for path in paths for file in files_in(path) for item in _identity(file, path)))


def files_in(path: Path) -> Iterable[Path]:
    """Return *path*, or every file below it in a fixed order, without what Python leaves behind."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if not file.is_dir() and "__pycache__" not in file.parts)


def kept(kind: str, name: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of *name* for *key*; the first time, have *make* fill it. It appears whole or not at all."""
    folder = store() / kind / f"{name}-{key}"
    if not folder.is_dir():
        with locked(store() / "locks" / f"{kind}-{name}", f"{name} ({kind})"):
            if not folder.is_dir():  # another process may have made it meanwhile
                _make(folder, store() / "work" / f"{kind}-{name}", make)
    os.utime(folder)
    return folder


def forget(kind: str, name: str) -> None:
    """Remove every version of *name*, so that it is made anew."""
    with locked(store() / "locks" / f"{kind}-{name}", f"{name} ({kind})"):
        for folder in _versions(kind, name):
            shutil.rmtree(folder)


@contextmanager
def work_folder(path: Path) -> Iterator[Path]:
    """Give an empty folder; what an earlier run left there goes first, and all of it goes at the end."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def step(argv: Iterable[str | Path], label: str, *, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    """Run one program with its output in a log.

    Raises ToolError, which names the log and has its last lines, when the program fails or is not there.
    """
    log = store() / "logs" / f"{label.replace(' ', '-')}.log"
    words = list(argv)
    try:
        code = run_logged(words, label=label, log=log, cwd=cwd, env=env)
    except FileNotFoundError as error:
        raise ToolError(f"{label}: there is no program {words[0]} on this machine") from error
    if code:
        said = "\n  ".join(["", *tail(log, 8)])
        raise ToolError(f"{label} failed: {words[0]} ended with {code}; the whole log is {log}{said}")


def _make(folder: Path, work: Path, make: Callable[[Path], None]) -> None:
    with work_folder(work):
        make(work)
        folder.parent.mkdir(parents=True, exist_ok=True)
        work.rename(folder)
    kind, name = folder.parent.name, folder.name.rpartition("-")[0]
    for old in _versions(kind, name)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def _versions(kind: str, name: str) -> list[Path]:
    found = (store() / kind).glob(f"{name}-{'?' * KEY_LENGTH}")
    return sorted(found, key=lambda folder: folder.stat().st_mtime, reverse=True)


def _identity(file: Path, root: Path) -> Iterator[str | bytes]:
    yield str(file.relative_to(root)) if file != root else file.name
    if file.is_symlink():
        yield f"-> {file.readlink()}"
    else:
        yield "x" if os.access(file, os.X_OK) else "-"
        yield file.read_bytes()
