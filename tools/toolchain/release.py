"""Pulumi's pieces as the official installer brings them: from PATH in the fitting version, or from the releases.

The releases publish no checksums that could be pinned here for every platform: as with the installer itself, TLS and
the host's name vouch for them, and each program must then say that it is the pinned version.
"""

import functools
import http.client
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tools.shell import ToolError, cache_dir, say
from tools.toolchain.table import Binary, versions

RELEASES = "https://get.pulumi.com/releases"

CONNECT_SECONDS = 3.0
"""Longer than any working network needs; a network without the host costs this much, once per run."""

READ_SECONDS = 30.0
"""A download that stalls this long is given up."""

CHUNK = 1 << 20

PROGRESS_STEP = 20 * CHUNK
"""A line per 20 MB: every few seconds on a slow line."""


def on_path(binary: Binary) -> Path | None:
    """Return the program that is installed already in exactly the pinned version, with what belongs to it."""
    if binary.name == "pulumi-resource-kubernetes":
        return _installed_provider()
    engine = _foreign("pulumi")
    if engine is None or not says_version(engine) or not _has_host(engine):
        return None
    return engine.resolve().parent / binary.name


def fetch(binary: Binary, folder: Path) -> bool:
    """Unpack the release that holds *binary* into *folder*; False when there is none for us or nothing answers."""
    url = f"{RELEASES}/{_archive(binary)}"
    if not _answers(urlsplit(url).netloc, urlsplit(url).scheme):
        return False
    try:
        _unpack(_download(url, binary.name), folder)
    except (OSError, http.client.HTTPException, tarfile.TarError) as error:
        say(f"toolchain: {url} cannot be used ({error}); building instead")
        return False
    return _is_complete(binary, folder)


def says_version(engine: Path) -> bool:
    """Ask an engine whether it is the pinned one."""
    env = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        done = subprocess.run([engine, "version"], capture_output=True, text=True, check=False, env=env, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.strip() == f"v{versions()['pulumi']['engine']}"


def _installed_provider() -> Path | None:
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    path = (
        home / "plugins" / f"resource-kubernetes-v{versions()['pulumi']['kubernetes']}" / "pulumi-resource-kubernetes"
    )
    return path if os.access(path, os.X_OK) else None


def _foreign(name: str) -> Path | None:
    """Find *name* on PATH, but not in our own cache."""
    places = os.environ.get("PATH", "").split(os.pathsep)
    ours = str(cache_dir())
    found = shutil.which(name, path=os.pathsep.join(place for place in places if not place.startswith(ours)))
    return Path(found) if found else None


def _has_host(engine: Path) -> bool:
    folder = engine.resolve().parent
    return all(os.access(folder / name, os.X_OK) for name in ("pulumi-language-python", "pulumi-language-python-exec"))


def _archive(binary: Binary) -> str:
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform, sys.platform)
    arm = platform.machine() in ("aarch64", "arm64")
    if binary.name == "pulumi-resource-kubernetes":
        version = versions()["pulumi"]["kubernetes"]
        return f"plugins/pulumi-resource-kubernetes-v{version}-{system}-{'arm64' if arm else 'amd64'}.tar.gz"
    return f"sdk/pulumi-v{versions()['pulumi']['engine']}-{system}-{'arm64' if arm else 'x64'}.tar.gz"


@functools.cache
def _answers(host: str, scheme: str) -> bool:
    """Connect to *host* once per run."""
    kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
    connection = kind(host, timeout=CONNECT_SECONDS)
    try:
        connection.connect()
    except OSError:
        say(f"toolchain: {host} does not answer within {CONNECT_SECONDS:.0f} s; building from Go modules")
        return False
    finally:
        connection.close()
    return True


def _download(url: str, name: str) -> io.BytesIO:
    data = io.BytesIO()
    with urllib.request.urlopen(url, timeout=READ_SECONDS) as response:  # noqa: S310  - the scheme is ours
        for chunk in iter(lambda: response.read(CHUNK), b""):
            before = data.tell() // PROGRESS_STEP
            data.write(chunk)
            if data.tell() // PROGRESS_STEP != before:
                say(f"toolchain: {name}: {data.tell() // CHUNK} MB fetched")
    data.seek(0)
    return data


def _unpack(archive: io.BytesIO, folder: Path) -> None:
    """Write the archive's programs flat into *folder*: its own folders say nothing."""
    with tarfile.open(fileobj=archive, mode="r:gz") as tar:
        for member in _programs(tar):
            source = tar.extractfile(member)
            if source is None:
                raise ToolError(f"the release archive holds {member.name} without content.")
            target = folder / Path(member.name).name
            target.write_bytes(source.read())
            target.chmod(0o755)


def _programs(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Find the engine, the Python host and the provider; the other languages' hosts stay in the archive."""
    names = ("pulumi", "pulumi-language-python", "pulumi-language-python-exec", "pulumi-resource-kubernetes")
    return (member for member in tar.getmembers() if member.isfile() and Path(member.name).name in names)


def _is_complete(binary: Binary, folder: Path) -> bool:
    program = folder / binary.name
    if not program.is_file():
        return False
    return binary.name == "pulumi-resource-kubernetes" or (
        says_version(folder / "pulumi") and _has_host(folder / "pulumi")
    )
