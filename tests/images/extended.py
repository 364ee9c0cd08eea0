"""An image built upon images/ssh-workspace, and a unit of it in mode `image`: no program of the bundle is around."""

import json
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.images.containers import Pod, Running
from tools.images import build
from tools.images.buildah import build_archive

README = Path(__file__).parents[2] / "images/ssh-workspace/README.md"


@dataclass(frozen=True)
class Extended:
    """An image built upon ours: its root, and what its configuration says."""

    root: Path
    config: dict[str, Any]


def build_example(folder: Path) -> Path:
    """Build the README's example upon our base, as a user would; give the image's archive."""
    (example,) = re.findall(r"```\n(FROM .*?)```", README.read_text(), re.DOTALL)
    context = folder / "context"
    context.mkdir()
    (context / "Containerfile").write_text("ARG BASE\n" + re.sub(r"^FROM .*", "FROM ${BASE}", example))
    archive, _ = build_archive("extended", context, {"BASE": build("workspace")["workspace"].archive}, folder)
    return archive


def configuration(archive: Path) -> dict[str, Any]:
    """Read the configuration of the only image in *archive*."""
    with tarfile.open(archive) as tar:

        def blob(name: str) -> Any:
            file = tar.extractfile(name)
            assert file
            return json.loads(file.read())

        def at(digest: str) -> Any:
            return blob(f"blobs/sha256/{digest.removeprefix('sha256:')}")

        found: dict[str, Any] = at(at(blob("index.json")["manifests"][0]["digest"])["config"]["digest"])["config"]
    return found


@contextmanager
def unit(pod: Pod, image: Extended, *args: str) -> Iterator[Running]:
    """Start the unit as Kubernetes does in mode `image`: ENTRYPOINT with *args*, else CMD, and no bundle."""
    pod.image = image.root
    pod.env = {**dict(entry.split("=", 1) for entry in image.config["Env"]), **pod.env}
    pod.made_accounts()
    argv = [*image.config["Entrypoint"], *(args or image.config["Cmd"])]
    tmp = {"/tmp": (pod.path("workspace"), "rw")}  # noqa: S108 - a pod's own, in its container
    with pod.started(argv, {**pod.login, **tmp, **pod.volumes}) as running:
        yield running
