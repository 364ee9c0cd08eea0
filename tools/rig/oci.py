"""OCI image archives: write small ones, read what any of them holds."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.rig.errors import RigError

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
NAME_KEYS = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
"""Annotations that carry an image's full name, the more reliable first."""

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Image:
    """An image of one layer: files by path with their mode, and what it runs."""

    name: str
    entrypoint: list[str]
    files: Mapping[str, tuple[bytes, int]]
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """An image found in an archive; the digest of a docker archive is known only after its import."""

    name: str
    digest: str | None

    def reference(self, digest: str) -> str:
        """Return the name by digest, as a pod asks for it."""
        repository, _, tag = self.name.rpartition(":")
        return f"{repository if repository and '/' not in tag else self.name}@{digest}"


def write(path: Path, machine: str, images: list[Image]) -> None:
    """Write *images* for *machine* (as `uname -m` says it) into one archive; the same input gives the same bytes."""
    blobs: dict[str, bytes] = {}
    manifests = [_add(blobs, image, ARCHITECTURES[machine]) for image in images]
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).encode()
    files = {f"blobs/sha256/{digest}": blob for digest, blob in blobs.items()}
    files |= {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": index}
    fresh = path.with_suffix(".new")
    fresh.write_bytes(_tar({name: (data, 0o644) for name, data in files.items()}, {}))
    fresh.replace(path)


def entries(archive: Path) -> list[Entry]:
    """Return what *archive*, OCI or docker, holds; raise RigError when it is neither or an image has no name."""
    try:
        with tarfile.open(archive) as tar:
            names = tar.getnames()
            member = next(name for name in ("index.json", "manifest.json") if name in names)
            found = json.load(tar.extractfile(member) or io.BytesIO())
    except FileNotFoundError as error:
        raise RigError(f"there is no image archive {archive}") from error
    except (StopIteration, OSError, ValueError, tarfile.TarError) as error:
        raise RigError(f"{archive} is neither an OCI nor a docker image archive") from error
    if isinstance(found, list):
        return [Entry(tag, None) for image in found for tag in image.get("RepoTags") or _nameless(archive)]
    return [Entry(_name(manifest, archive), manifest["digest"]) for manifest in found["manifests"]]


def _name(manifest: dict[str, Any], archive: Path) -> str:
    annotations = manifest.get("annotations", {})
    for key in NAME_KEYS:
        if "/" in annotations.get(key, ""):
            return str(annotations[key])
    return _nameless(archive)[0]


def _nameless(archive: Path) -> list[str]:
    raise RigError(
        f"{archive} holds an image without a full name; write it with one, for example localhost/gpu-runtime/x:1"
    )


def _add(blobs: dict[str, bytes], image: Image, architecture: str) -> dict[str, Any]:
    layer = _put(blobs, LAYER, _tar(image.files, image.links))
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": image.entrypoint, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    described = _put(blobs, CONFIG, json.dumps(config).encode())
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": [layer]}
    return {**_put(blobs, MANIFEST, json.dumps(manifest).encode()), "annotations": {NAME_KEYS[0]: image.name}}


def _put(blobs: dict[str, bytes], media_type: str, data: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def _tar(files: Mapping[str, tuple[bytes, int]], links: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, (data, mode) in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), mode
            tar.addfile(info, io.BytesIO(data))
        for name, target in links.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return buffer.getvalue()
