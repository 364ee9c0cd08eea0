"""Building one program from its Go module."""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tools.shell import ToolError, cache_dir, run_logged, say, tail
from tools.toolchain.table import GO_MODULES, MODULES, Binary, Module, versions

GIGABYTE = 10**9

SPARE_GIGABYTES = 1
"""For the programs themselves and for temporary files of the linker."""

NO_GO = "no-go"
"""The Go version of a machine that has none, as part of a key."""

FAILURES = {
    "No space left|no space left|disk quota exceeded": "the disk is full: a cold build of everything needs 17 GB",
    "dial tcp|no such host|i/o timeout|TLS handshake|connection refused|proxyconnect": (
        "the Go module proxy does not answer: look at the network, or set GOPROXY"
    ),
    "requires go >=|toolchain not available": "this Go is too old for it: install the version that go.mod asks for",
    "checksum mismatch|SECURITY ERROR": "a module is not the one that go.sum pins: do not use it, look into GOPROXY",
}
"""Output of a failed build → what it means for the person at the terminal."""


@functools.cache
def version() -> str:
    """Return Go's version (`go1.26.8`), or NO_GO. In a module's folder, so that a newer toolchain may step in."""
    if shutil.which("go") is None:
        return NO_GO
    return _ask(["go", "env", "GOVERSION"], GO_MODULES / "pulumi") or NO_GO


def require(binaries: Iterable[Binary]) -> None:
    """Refuse, before anything is built, what cannot end well: no Go, too old a Go, too little disk."""
    names = ", ".join(binary.name for binary in binaries)
    minimum = versions()["go"]["minimum"]
    if version() == NO_GO:
        raise ToolError(f"{names} must be built, and that needs Go {minimum} or newer: install it (go.dev/dl).")
    if _numbers(version()) < _numbers(minimum):
        raise ToolError(f"{names} must be built with Go {minimum} or newer; this machine has {version()}.")
    _require_disk({binary.module for binary in binaries})


def build(binary: Binary, folder: Path, log: Path) -> None:
    """Build *binary* into *folder* with its companions; Go's own cache keeps what an interrupted build had done."""
    module = GO_MODULES / binary.module
    say(f"toolchain: building {binary.name} (log: {log})")
    argv = ["go", "build", "-v", "-trimpath", "-ldflags", _ldflags(binary), "-tags", binary.tags]
    argv += ["-o", str(folder / binary.name), binary.package]
    if run_logged(argv, label=f"toolchain: {binary.name}", log=log, env=_environment(binary), cwd=module) != 0:
        raise ToolError(failure(binary.name, log))
    for companion in binary.companions:
        source = Path(_ask(["go", "list", "-m", "-f", "{{.Dir}}", companion.module], module)) / companion.file
        target = folder / source.name
        shutil.copyfile(source, target)
        target.chmod(companion.mode)
    log.unlink()


def failure(name: str, log: Path) -> str:
    """Say in one sentence why a build failed; where no known reason fits, show the log's last lines."""
    lines = tail(log)
    text = "\n".join(lines)
    for pattern, meaning in FAILURES.items():
        if re.search(pattern, text):
            return f"{name} was not built: {meaning} (log: {log})."
    return f"{name} was not built; the end of {log}:\n{text}"


def _ldflags(binary: Binary) -> str:
    return " ".join(["-s", "-w", *(f"-X {symbol}" for symbol in binary.version_symbols)])


def _environment(binary: Binary) -> dict[str, str]:
    """Return the caller's environment without what would change the result: flags and workspaces of their own."""
    fixed = {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}
    return {**os.environ, **fixed, **({"CGO_ENABLED": "0"} if binary.static else {})}


def _require_disk(folders: set[str]) -> None:
    """Compare what cold modules will take with what is free, on every file system that gets a part of it."""
    caches = [Path(line) for line in _ask(["go", "env", "GOMODCACHE", "GOCACHE"], GO_MODULES / "pulumi").split()]
    cold = [module for module in MODULES.values() if module.folder in folders and not _is_warm(module, caches[0])]
    needed = sum(module.gigabytes for module in cold) + SPARE_GIGABYTES
    for place in (*caches, cache_dir()):
        free = shutil.disk_usage(_existing(place)).free // GIGABYTE
        if free < needed:
            raise ToolError(f"the build needs {needed} GB of disk at {place}; {free} GB are free.")


def _is_warm(module: Module, module_cache: Path) -> bool:
    return (module_cache / f"{module.path}@{module.pinned}").is_dir()


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def _ask(argv: list[str], folder: Path) -> str:
    """Return what a short command prints; nothing when it fails."""
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _numbers(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a Go version: `go1.27rc1` counts as 1.27."""
    match = re.search(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()
