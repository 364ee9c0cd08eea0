"""One image by its Containerfile, through Debian's buildah: no service, and nothing is left but an archive."""

import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools import toolchain
from tools.images.store import step
from tools.shell import ToolError

PREFIX = "localhost/gpu-runtime"
"""Names that no registry serves: an image of ours that was not loaded is never looked for elsewhere."""

STATE = ("/var/lib/containers", "/run/containers")
"""Where buildah and skopeo keep things whatever they are told."""

PRIVATE = " && ".join([*(f'mkdir -p {folder} && mount --bind "$0" {folder}' for folder in STATE), 'exec "$@"'])
"""They get a folder there that goes with the work."""


def build_archive(name: str, context: Path, bases: Mapping[str, Path], work: Path) -> tuple[Path, str]:
    """Build *context* with *bases* (build argument → OCI archive) and return (OCI archive in *work*, reference).

    The reference is `localhost/gpu-runtime/<name>@sha256:<digest>`; in the archive the image is called by a tag of that
    digest's first digits. Raises ToolError when this machine cannot build, or the build fails.
    """
    _must_be_root()
    toolchain.ensure_debian("buildah")
    arguments = [f"--build-arg={argument}=oci-archive:{archive}" for argument, archive in bases.items()]
    options = ["--isolation=chroot", "--timestamp=0", "--format=oci", "--layers=false"]
    _buildah(work, f"{name} image", "build", *options, *arguments, f"--tag={PREFIX}/{name}", str(context))
    _buildah(work, f"{name} archive", "push", f"{PREFIX}/{name}", f"oci:{work / 'layout'}:latest")
    reference = _name_image(work / "layout", name)
    archive = work / "image.tar"
    _pack(work / "layout", archive)
    return archive, reference


def push_archive(name: str, archive: Path, target: str, *, plain: bool, work: Path) -> None:
    """Copy the image in *archive* to *target* in a registry, byte by byte; *plain* is without TLS.

    Raises ToolError when the registry does not take it.
    """
    _must_be_root()
    toolchain.ensure_debian("skopeo")
    options = ["--preserve-digests", *(["--dest-tls-verify=false"] if plain else [])]
    _contained(work, f"{name} push", "skopeo", "copy", *options, f"oci-archive:{archive}", f"docker://{target}")


def short(digest: str) -> str:
    """Return a tag for the image with manifest *digest*: tags may not contain the colon of `sha256:…`."""
    return digest.removeprefix("sha256:")[:12]


def _must_be_root() -> None:
    if os.geteuid():
        raise ToolError(
            "images are built and pushed as root (they are root file systems): run this as root, or with sudo"
        )


def _buildah(work: Path, label: str, command: str, *arguments: str) -> None:
    storage = ["--storage-driver=vfs", f"--root={work / 'storage'}", f"--runroot={work / 'run'}"]
    _contained(work, label, "buildah", *storage, command, *arguments)


def _contained(work: Path, label: str, *argv: str) -> None:
    """Run *argv* so that whatever it leaves lies in folder *work*."""
    for folder in ("state", "tmp"):
        (work / folder).mkdir(exist_ok=True)
    private: list[str | Path] = ["unshare", "--mount", "sh", "-c", PRIVATE, work / "state"]
    step([*private, *argv], label, env=os.environ | {"TMPDIR": str(work / "tmp")})


def _name_image(layout: Path, name: str) -> str:
    """Name the image in the *layout*'s index, by the annotation that containerd goes by, and return its reference."""
    index: dict[str, Any] = json.loads((layout / "index.json").read_text())
    (image,) = index["manifests"]
    image["annotations"] = {"io.containerd.image.name": f"{PREFIX}/{name}:{short(image['digest'])}"}
    (layout / "index.json").write_text(json.dumps(index))
    return f"{PREFIX}/{name}@{image['digest']}"


def _pack(layout: Path, archive: Path) -> None:
    """Write *layout* as a tar file that depends on its content alone."""
    with tarfile.open(archive, "w") as tar:
        for file in sorted(path for path in layout.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(str(file.relative_to(layout)))
            entry.size = file.stat().st_size
            with file.open("rb") as content:
                tar.addfile(entry, content)
    shutil.rmtree(layout)
