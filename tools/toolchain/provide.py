"""From a name to a path: what is missing is taken from PATH, from the releases, or built."""

from collections.abc import Iterable
from pathlib import Path

from tools.shell import ToolError, cache_dir, locked, say
from tools.toolchain import go, release
from tools.toolchain.debian import ensure_debian
from tools.toolchain.store import Entry, entry
from tools.toolchain.table import BINARIES, PULUMI_PIECES, Binary


def ensure(*names: str) -> dict[str, Path]:
    """Return the paths of the named programs (all when none is named), making those that are missing.

    Raises:
        ToolError: a name is unknown, or a program cannot be made here: one sentence says why.

    """
    wanted = _select(names)
    if any(locate(binary).origin() is None for binary in wanted):
        with locked(cache_dir() / "toolchain.lock", "toolchain"):
            _make([binary for binary in wanted if locate(binary).origin() is None])
    return {binary.name: locate(binary).path for binary in wanted if not names or binary.name in names}


def locate(binary: Binary) -> Entry:
    """Return the cache entry of *binary*, whether it is there or not."""
    return entry(binary, go.version())


def _select(names: Iterable[str]) -> list[Binary]:
    unknown = sorted(set(names) - set(BINARIES))
    if unknown:
        raise ToolError(f"the toolchain has no {', '.join(unknown)}; it has {', '.join(sorted(BINARIES))}.")
    wanted = {*names, *(other for name in names for other in BINARIES[name].beside)}
    return [binary for binary in BINARIES.values() if not names or binary.name in wanted]


def _make(missing: list[Binary]) -> None:
    """Take what is installed or released; build the rest, after one look at whether that can end well."""
    adopted = {name for name in PULUMI_PIECES if BINARIES[name] in missing and _adopt(BINARIES[name])}
    rest = [binary for binary in missing if binary.name not in adopted]
    if not rest:
        return
    go.require(rest)
    ensure_debian(*sorted({package for binary in rest for package in binary.debian}))
    for number, binary in enumerate(rest, start=1):
        say(f"toolchain: {number} of {len(rest)}")
        _build(binary)


def _build(binary: Binary) -> None:
    made = locate(binary)

    def fill(folder: Path) -> None:
        go.build(binary, folder, made.log)
        for other in binary.beside:
            (folder / other).symlink_to(locate(BINARIES[other]).path)

    made.put("build", fill)


def _adopt(binary: Binary) -> bool:
    made = locate(binary)
    installed = release.on_path(binary) or _unpacked_with_engine(binary)
    if installed is not None:
        say(f"toolchain: {binary.name} is {installed}")
        made.put("path", lambda folder: (folder / binary.name).symlink_to(installed))
        return True
    try:
        made.put("release", lambda folder: _fetch(binary, folder))
    except FileNotFoundError:
        return False
    return True


def _unpacked_with_engine(binary: Binary) -> Path | None:
    """Return the language host of a release that was unpacked a moment ago: both come in one archive."""
    engine = locate(BINARIES["pulumi"])
    path = engine.folder / binary.name
    return path if binary.name in BINARIES["pulumi"].beside and engine.origin() == "release" else None


def _fetch(binary: Binary, folder: Path) -> None:
    if not release.fetch(binary, folder):
        raise FileNotFoundError(binary.name)
