"""Image archives and how they are brought into a rig."""

import io
import json
import sys
import tarfile
from pathlib import Path

import pytest

from tools.rig import RigError, images, oci

IMAGE = oci.Image("localhost/gpu-runtime/x:1", ["/x"], {"x": (b"program", 0o755)}, {"y": "x"})

CTR = """
import json, pathlib, sys
home, words = pathlib.Path(sys.argv[1]), sys.argv[2:]
store = json.loads((home / "store").read_text())
with (home / "calls").open("a") as calls:
    calls.write(" ".join(words[:2]) + "\\n")
if words[:2] == ["images", "list"]:
    print("REF TYPE DIGEST SIZE PLATFORMS LABELS")
    for name, (digest, labels) in store.items():
        print(name, "manifest", digest, "1.0 MiB", "linux/amd64", labels or "-")
elif words[1] == "import":
    store.update(json.loads((home / "imported").read_text()))
elif words[1] == "tag":
    store[words[-1]] = store[words[-2]]
elif words[1] == "label":
    store[words[2]][1] = words[3]
(home / "store").write_text(json.dumps(store))
"""


@pytest.fixture
def ctr(tmp_path: Path) -> list[str]:
    """Return a stand-in of ctr that keeps its images in a file."""
    (tmp_path / "store").write_text("{}")
    return [sys.executable, "-c", CTR, str(tmp_path)]


def calls(home: Path) -> list[str]:
    """Return what was asked of ctr, and forget it."""
    text = (home / "calls").read_text().splitlines()
    (home / "calls").unlink()
    return text


def docker_archive(path: Path, tags: list[str] | None) -> Path:
    """Write the part of a docker archive that names its images."""
    data = json.dumps([{"Config": "c.json", "RepoTags": tags, "Layers": []}]).encode()
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("manifest.json")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return path


def test_an_archive_says_what_it_holds(tmp_path: Path) -> None:
    """Name and digest are read from the archive alone, and the same image is the same bytes."""
    oci.write(tmp_path / "a.tar", "x86_64", [IMAGE])
    oci.write(tmp_path / "b.tar", "x86_64", [IMAGE])
    (entry,) = oci.entries(tmp_path / "a.tar")

    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    assert entry.name == "localhost/gpu-runtime/x:1"
    assert entry.reference("sha256:ab") == "localhost/gpu-runtime/x@sha256:ab"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("host:5000/a/b", "host:5000/a/b@d"), ("host:5000/a/b:2", "host:5000/a/b@d"), ("a/b", "a/b@d")],
)
def test_references_by_digest(name: str, expected: str) -> None:
    """The tag goes, a registry's port stays."""
    assert oci.Entry(name, None).reference("d") == expected


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    """The refusal names the file."""
    (tmp_path / "x.tar").write_text("no archive")

    with pytest.raises(RigError, match=r"x\.tar is neither"):
        oci.entries(tmp_path / "x.tar")
    with pytest.raises(RigError, match=r"no image archive .*y\.tar"):
        oci.entries(tmp_path / "y.tar")
    with pytest.raises(RigError, match="without a full name"):
        oci.entries(docker_archive(tmp_path / "z.tar", None))


def test_an_image_is_loaded_once(tmp_path: Path, ctr: list[str]) -> None:
    """An OCI archive whose digest is there already is not read again; its reference is what a pod asks for."""
    archive = tmp_path / "x.tar"
    oci.write(archive, "x86_64", [IMAGE])
    (entry,) = oci.entries(archive)
    (tmp_path / "imported").write_text(json.dumps({entry.name: [entry.digest, ""]}))
    reference = f"localhost/gpu-runtime/x@{entry.digest}"

    assert images.load(archive, ctr) == [reference]
    assert calls(tmp_path) == ["images list", "images import", "images list", "images tag"]
    assert images.load(archive, ctr) == [reference]
    assert calls(tmp_path) == ["images list"]


def test_a_docker_archive_is_loaded_once(tmp_path: Path, ctr: list[str]) -> None:
    """A docker archive has no digest of its own: the image remembers which file it came from."""
    archive = docker_archive(tmp_path / "x.tar", ["localhost/gpu-runtime/x:1"])
    (tmp_path / "imported").write_text(json.dumps({"localhost/gpu-runtime/x:1": ["sha256:cd", ""]}))

    assert images.load(archive, ctr) == ["localhost/gpu-runtime/x@sha256:cd"]
    calls(tmp_path)
    assert images.load(archive, ctr) == ["localhost/gpu-runtime/x@sha256:cd"]
    assert calls(tmp_path) == ["images list"]


def test_a_changed_archive_of_the_same_name_is_loaded(tmp_path: Path, ctr: list[str]) -> None:
    """A rebuilt image replaces nothing: it comes beside, under its own digest."""
    for content in (b"one", b"two"):
        archive = tmp_path / "x.tar"
        oci.write(archive, "x86_64", [oci.Image("localhost/gpu-runtime/x:1", ["/x"], {"x": (content, 0o755)})])
        (entry,) = oci.entries(archive)
        (tmp_path / "imported").write_text(json.dumps({entry.name: [entry.digest, ""]}))
        assert images.load(archive, ctr) == [f"localhost/gpu-runtime/x@{entry.digest}"]

    assert len(json.loads((tmp_path / "store").read_text())) == 3


def test_system_images_are_named_as_the_configuration_asks() -> None:
    """The runtime and the addons look for exactly these."""
    found = {image.name: image for image in images.system_images(b"p", b"b", b"c")}

    assert set(found) == {"localhost/rig/pause:1", "localhost/rig/helper:1", "localhost/rig/coredns:1"}
    assert {"bin/volume-setup", "bin/volume-teardown"} < set(found["localhost/rig/helper:1"].files)
