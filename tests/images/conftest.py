"""A bundle, keys, and pods to try them in."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.clients import ensure_clients
from tests.images.containers import HOME, UID, USER, Pod
from tests.images.extended import Extended, build_example, configuration
from tools.images import Image, build


@pytest.fixture(scope="session", autouse=True)
def clients() -> None:
    """Have what users have."""
    ensure_clients()


@pytest.fixture(scope="session")
def bundle_image() -> Image:
    """The built bundle."""
    if os.geteuid():
        pytest.skip("containers are made as root")
    return build("bundle")["bundle"]


@pytest.fixture(scope="session")
def bundle_content(bundle_image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the bundle's image holds, unpacked."""
    folder = tmp_path_factory.mktemp("bundle")
    unpack(bundle_image.archive, folder)
    return folder


@pytest.fixture(scope="session")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file system of a small Debian with bash and Python, as many users' images have; root owns all of it."""
    folder = tmp_path_factory.mktemp("debian")
    folder.chmod(0o755)
    unpack(build("python")["python"].archive, folder)
    return folder


@pytest.fixture
def workspace(pod: Pod, debian: Path) -> Pod:
    """A pod whose image is a Debian."""
    pod.image = debian
    return pod


@pytest.fixture(scope="session")
def extended(bundle_image: Image, tmp_path_factory: pytest.TempPathFactory) -> Extended:
    """The example of images/ssh-workspace/README.md."""
    del bundle_image  # skips where nothing can be built
    folder = tmp_path_factory.mktemp("extended")
    folder.chmod(0o755)
    archive = build_example(folder)
    (folder / "root").mkdir()
    unpack(archive, folder / "root")
    return Extended(folder / "root", configuration(archive))


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the key pairs `host`, `alice` and `mallory`, and the known_hosts for them."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("host", "alice", "mallory"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "known_hosts").write_text(f"[127.0.0.1]:2222 {(folder / 'host.pub').read_text()}")
    return folder


@pytest.fixture
def pod(tmp_path: Path, bundle_content: Path, keys: Path, request: pytest.FixtureRequest) -> Pod:
    """A pod whose image has nothing at all, its bundle in place, Alice's key in its list; a parameter is its uid."""
    pod = Pod(tmp_path / "pod", uid=getattr(request, "param", UID))
    pod.folder.chmod(0o755)
    tmp_path.chmod(0o755)
    image = tmp_path / "bundle-image"
    image.mkdir()
    mounts = {"/bundle": (bundle_content / "bundle", "ro"), "/.gpu-runtime-dst": (pod.path("bundle"), "rw")}
    installed = pod.run(["/bundle/bin/sh", "/bundle/libexec/install"], mounts, root=image)
    assert installed.returncode == 0, installed.stderr
    shutil.copy(keys / "host", pod.path("host") / "ssh_host_ed25519_key")
    (pod.path("host") / "ssh_host_ed25519_key").chmod(0o444)  # a Secret: root's, readable by the pod's group
    shutil.copy(keys / "alice.pub", pod.path("keys") / "authorized_keys")
    pod.env |= {"GPU_RUNTIME_SSH_USER": USER, "GPU_RUNTIME_HOME": HOME}
    return pod


@pytest.fixture(scope="session")
def dufs_image() -> Image:
    """The built image."""
    if os.geteuid():
        pytest.skip("containers are made as root")
    return build("dufs")["dufs"]


@pytest.fixture(scope="session")
def dufs_content(dufs_image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image holds, unpacked."""
    folder = tmp_path_factory.mktemp("dufs")
    folder.chmod(0o755)
    unpack(dufs_image.archive, folder)
    return folder


@pytest.fixture
def shown(tmp_path: Path, dufs_content: Path) -> Pod:
    """A pod with dufs' image and an empty volume."""
    for folder in (tmp_path, tmp_path.parent):
        folder.chmod(0o755)
    pod = Pod(tmp_path / "pod", image=dufs_content, read_only_root=True)
    pod.folder.chmod(0o755)
    return pod


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the layers of the only image in *archive*."""
    layout = folder / "layout"
    with tarfile.open(archive) as tar:
        tar.extractall(layout, filter="data")
    for blob in (layout / "blobs/sha256").iterdir():
        if blob.read_bytes()[:2] == b"\x1f\x8b":  # gzip: a layer, not a description
            with tarfile.open(blob) as layer:
                layer.extractall(folder, filter="tar")
    shutil.rmtree(layout)
