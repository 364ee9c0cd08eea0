"""Provide every program that the project runs: from the cache, from what is installed, from releases, or built.

`ensure("pulumi", "kube")` returns paths; the same names on a command line: `python3 -m tools.toolchain pulumi kube`.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from tools.shell import ToolError, cache_dir, locked, say
from tools.toolchain import go, release
from tools.toolchain.debian import ensure_debian
from tools.toolchain.store import Entry, entry
from tools.toolchain.table import BINARIES, PULUMI_PIECES, Binary, versions

__all__ = ["ToolError", "ensure", "ensure_debian", "locate", "pulumi_env", "versions"]


def ensure(*names: str) -> dict[str, Path]:
    """Return the paths of the named programs (all when none is named), making those that are missing.

    Raises:
        ToolError: a name is unknown, or a program cannot be made here: one sentence says why.

    """
    wanted = _select(names)
    if any(locate(binary).origin() is None for binary in wanted):
        with locked(cache_dir() / "toolchain.lock", "toolchain"):
            _make([binary for binary in wanted if locate(binary).origin() is None])
    return {binary.name: locate(binary).path for binary in wanted}


def locate(binary: Binary) -> Entry:
    """Return the cache entry of *binary*, whether it is there or not."""
    return entry(binary, go.version())


def pulumi_env() -> dict[str, str]:
    """Return what to set over the environment so that `pulumi` is ours, finds its plugins and stays off the network."""
    paths = ensure(*PULUMI_PIECES)
    folders = [str(paths[name].parent) for name in PULUMI_PIECES]
    settings = {
        "PATH": os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)]),
        "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    if locate(BINARIES["pulumi-resource-kubernetes"]).origin() == "build":
        settings["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
    return settings


def _select(names: Iterable[str]) -> list[Binary]:
    unknown = sorted(set(names) - set(BINARIES))
    if unknown:
        raise ToolError(f"the toolchain has no {', '.join(unknown)}; it has {', '.join(sorted(BINARIES))}.")
    return [binary for binary in BINARIES.values() if not names or binary.name in names]


def _make(missing: list[Binary]) -> None:
    """Take what is installed or released; build the rest, after one look at whether that can end well."""
    rest = [binary for binary in missing if not (binary.name in PULUMI_PIECES and _adopt(binary))]
    if not rest:
        return
    go.require(rest)
    ensure_debian(*sorted({package for binary in rest for package in binary.debian}))
    for number, binary in enumerate(rest, start=1):
        say(f"toolchain: {number} of {len(rest)}")
        _build(binary)


def _build(binary: Binary) -> None:
    made = locate(binary)
    made.put("build", lambda folder: go.build(binary, folder, made.log))


def _adopt(binary: Binary) -> bool:
    made = locate(binary)
    installed = release.on_path(binary)
    if installed is not None:
        say(f"toolchain: {binary.name} is {installed}")
        made.put("path", lambda folder: (folder / binary.name).symlink_to(installed))
        return True
    try:
        made.put("release", lambda folder: _fetch(binary, folder))
    except FileNotFoundError:
        return False
    return True


def _fetch(binary: Binary, folder: Path) -> None:
    if not release.fetch(binary, folder):
        raise FileNotFoundError(binary.name)
