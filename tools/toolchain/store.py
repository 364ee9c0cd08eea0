"""Where finished programs lie, under which key, and how one gets there: whole or not at all."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.shell import cache_dir
from tools.toolchain.table import BINARIES, GO_MODULES, Binary

RECORD = "origin.json"
"""Beside a program: where it came from, and what a link points at."""


@dataclass(frozen=True)
class Entry:
    """A program's folder in the cache. The folder exists only when the program in it is complete."""

    name: str
    key: str

    @property
    def folder(self) -> Path:
        """`<cache>/bin/<name>-<key>`."""
        return cache_dir() / "bin" / f"{self.name}-{self.key}"

    @property
    def path(self) -> Path:
        """The program itself."""
        return self.folder / self.name

    @property
    def log(self) -> Path:
        """What its last failed build printed."""
        return cache_dir() / "log" / f"{self.name}.log"

    def origin(self) -> str | None:
        """Return `build`, `release` or `path`; None when the program is missing or a link's target has changed."""
        try:
            record = json.loads((self.folder / RECORD).read_text())
        except (OSError, ValueError):
            return None
        fits = os.access(self.path, os.X_OK) and record.get("target") == _target(self.path)
        return str(record["origin"]) if fits else None

    def put(self, origin: str, fill: Callable[[Path], None]) -> Path:
        """Let *fill* make the folder's contents aside, then move them into place. The caller holds the lock."""
        draft = self.folder.with_name(f".{self.folder.name}")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            fill(draft)
            (draft / RECORD).write_text(json.dumps({"origin": origin, "target": _target(draft / self.name)}))
            shutil.rmtree(self.folder, ignore_errors=True)
            draft.rename(self.folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return self.path


def entry(binary: Binary, go_version: str) -> Entry:
    """Return where *binary* belongs: the key changes with everything that it is built from, and with nothing else."""
    module = GO_MODULES / binary.module
    recipe = [binary.package, binary.tags, *binary.version_symbols, str(binary.static), go_version, *_platform()]
    recipe += [f"{companion.module} {companion.file} {companion.mode:o}" for companion in binary.companions]
    recipe += [entry(BINARIES[other], go_version).key for other in binary.beside]
    digest = hashlib.sha256("\0".join(recipe).encode())
    for file in (module / "go.mod", module / "go.sum", *_own_sources(binary, module)):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return Entry(binary.name, digest.hexdigest()[:16])


def prune(wanted: Iterable[Entry]) -> list[str]:
    """Remove every other program from the cache and return their folders' names. The caller holds the lock."""
    keep = {kept.folder for kept in wanted}
    folders = sorted((cache_dir() / "bin").glob("*"))
    removed = [folder for folder in folders if folder not in keep]
    for folder in removed:
        shutil.rmtree(folder)
    return [folder.name for folder in removed]


def _platform() -> tuple[str, str]:
    return os.uname().sysname, os.uname().machine


def _own_sources(binary: Binary, module: Path) -> list[Path]:
    """List the sources of a package of ours (`.`, `./x`); an upstream package is fixed by go.sum."""
    found = sorted((module / binary.package).glob("*.go")) if binary.package.startswith(".") else []
    return [file for file in found if not file.name.endswith("_test.go")]


def _target(path: Path) -> list[int | str] | None:
    """Identify what a link points at; a file of our own needs no identity."""
    if not path.is_symlink():
        return None
    stat = path.stat()
    return [str(path.resolve()), stat.st_size, stat.st_mtime_ns]
