"""Images of a rig: its own three, and whatever `load` brings."""

import hashlib
import platform
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tools.rig import config, oci
from tools.rig.errors import RigError
from tools.shell import cache_dir

PAUSE_SOURCE = Path(__file__).with_name("pause.c")
BUSYBOX = Path("/bin/busybox")
"""Static, from Debian's busybox-static: the shell of the volume helper."""

VOLUME_SETUP = b'#!/bin/busybox sh\nset -eu\nexec /bin/busybox mkdir -m 0755 -p "$VOL_DIR"\n'
"""Not writable by all, as real volumes are not: a pod needs fsGroup to write, here as anywhere."""

VOLUME_TEARDOWN = b'#!/bin/busybox sh\nset -eu\nexec /bin/busybox rm -rf "$VOL_DIR"\n'

LABEL = "gpu-runtime/archive"
"""Marks an image with the digest of the docker archive it came from, which has no digest of its own."""


def system_archive(coredns: Path) -> Path:
    """Return the archive of the rig's own images, built once into the cache for each combination of its inputs."""
    sources = (PAUSE_SOURCE, BUSYBOX, Path(__file__), Path(oci.__file__), coredns)
    digest = hashlib.sha256(b"".join(_digest(source) for source in sources)).hexdigest()[:16]
    path = cache_dir() / "rig" / f"images-{digest}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        oci.write(
            path, platform.machine(), system_images(_compiled_pause(), BUSYBOX.read_bytes(), coredns.read_bytes())
        )
    return path


def system_images(pause: bytes, busybox: bytes, coredns: bytes) -> list[oci.Image]:
    """Return the images that hold a pod's namespaces, make volume folders and answer DNS."""
    helpers = {"bin/volume-setup": (VOLUME_SETUP, 0o755), "bin/volume-teardown": (VOLUME_TEARDOWN, 0o755)}
    return [
        oci.Image(config.PAUSE_IMAGE, ["/pause"], {"pause": (pause, 0o755)}),
        oci.Image(
            config.HELPER_IMAGE, ["/bin/sh"], {"bin/busybox": (busybox, 0o755), **helpers}, {"bin/sh": "busybox"}
        ),
        oci.Image(config.COREDNS_IMAGE, ["/coredns"], {"coredns": (coredns, 0o755)}),
    ]


def load(archive: Path, ctr: list[str]) -> list[str]:
    """Import *archive* through the command *ctr* unless it is there already; return its references by digest."""
    found = oci.entries(archive)
    mark = _file_digest(archive) if any(entry.digest is None for entry in found) else ""
    known = _listed(_run(ctr, "images", "list"))
    loaded = [_loaded(entry, known, mark) for entry in found]
    if None not in loaded:
        return [reference for reference in loaded if reference]
    with archive.open("rb") as stream:
        _run(ctr, "images", "import", "--local", "-", stdin=stream.fileno())
    known = _listed(_run(ctr, "images", "list"))
    return [_tag(ctr, entry, known, mark) for entry in found]


def _tag(ctr: list[str], entry: oci.Entry, known: dict[str, tuple[str, str]], mark: str) -> str:
    """Give an imported image the name by digest that a pod asks for; the CRI then needs no pull."""
    digest, _ = known[_familiar(entry.name, known)]
    reference = entry.reference(digest)
    _run(ctr, "images", "tag", "--force", _familiar(entry.name, known), reference)
    if entry.digest is None:
        _run(ctr, "images", "label", reference, f"{LABEL}={mark}")
    return reference


def _loaded(entry: oci.Entry, known: dict[str, tuple[str, str]], mark: str) -> str | None:
    if entry.digest is not None:
        reference = entry.reference(entry.digest)
        return reference if reference in known else None
    for name, (digest, labels) in known.items():
        if name == entry.reference(digest) and f"{LABEL}={mark}" in labels:
            return name
    return None


def _familiar(name: str, known: Iterable[str]) -> str:
    """Return the name under which containerd keeps *name*: docker archives leave the registry out."""
    for candidate in (name, f"docker.io/{name}", f"docker.io/library/{name}"):
        if candidate in known:
            return candidate
    raise RigError(f"containerd did not keep the image {name} that it imported")


def _listed(table: str) -> dict[str, tuple[str, str]]:
    """Read `ctr images list`: name → digest and labels."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return {row[0]: (row[2], row[-1]) for row in rows}


def _run(ctr: list[str], *argv: str, stdin: int = subprocess.DEVNULL) -> str:
    done = subprocess.run([*ctr, *argv], check=False, stdin=stdin, capture_output=True, text=True)
    if done.returncode:
        raise RigError(f"`ctr {' '.join(argv)}` failed: {done.stderr.strip()}")
    return done.stdout


def _compiled_pause() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "pause"
        argv = ["gcc", "-Os", "-static", "-s", "-Wall", "-Werror", "-o", str(program), str(PAUSE_SOURCE)]
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RigError(f"gcc could not build {PAUSE_SOURCE.name}: {done.stderr.strip()}")
        return program.read_bytes()


def _digest(path: Path) -> bytes:
    return bytes.fromhex(_file_digest(path))


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
