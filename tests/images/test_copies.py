"""Copying files, with each of the programs that people use, in an image that has none of them."""

from pathlib import Path

import pytest

from tests.images.containers import Client, Pod
from tests.images.test_ssh import SLEEP


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a few files, one of which has an odd name."""
    made = tmp_path / "made"
    (made / "below").mkdir(parents=True)
    (made / "below/large").write_bytes(bytes(range(256)) * 8192)
    (made / "an 'odd' name").write_text("odd")
    return made


def content(folder: Path) -> dict[str, bytes]:
    """Read every file below *folder*."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("flag", ["-s", "-O"])
def test_scp_in_any_image(pod: Pod, keys: Path, folder: Path, tmp_path: Path, flag: str) -> None:
    """Scp works by sftp, as new clients do it, and by the older way that asks for an scp on the other side."""
    with pod.main(*SLEEP) as running:
        client = Client(keys, running)
        there = client.scp(flag, "-r", folder, f"{client.there}:copied")
        back = client.scp(flag, "-r", f"{client.there}:copied", tmp_path / "back")
    assert (there.returncode, back.returncode) == (0, 0), there.stderr + back.stderr
    assert content(tmp_path / "back") == content(folder)


def rsync(client: Client, bundle: Path, *words: str | Path) -> str:
    """Run rsync over SSH; what it says of the amount sent is returned."""
    shell = " ".join(["ssh", *client.options, "-p", "2222"])
    done = client.running.in_network(bundle / "bundle/tools/rsync", "-a", "--stats", "-e", shell, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_rsync_in_any_image(pod: Pod, keys: Path, folder: Path, bundle_content: Path, tmp_path: Path) -> None:
    """Rsync finds its other half in an image without one, and sends a second time only what changed."""
    with pod.main(*SLEEP) as running:
        client = Client(keys, running)
        rsync(client, bundle_content, f"{folder}/", f"{client.there}:copied/")
        again = rsync(client, bundle_content, f"{folder}/", f"{client.there}:copied/")
        rsync(client, bundle_content, f"{client.there}:copied/", tmp_path / "back/")
    assert "Number of regular files transferred: 0" in again
    assert content(tmp_path / "back") == content(folder)


def test_the_images_own_programs_come_first(pod: Pod, keys: Path) -> None:
    """What the bundle adds to PATH is last: an image that has rsync or scp keeps its own, and nothing else is added."""
    pod.image_file("/usr/bin/rsync", "#!/.gpu-runtime/bin/sh\necho mine\n", 0o755)
    with pod.main(*SLEEP) as running:
        done = Client(keys, running).ssh("rsync; echo $PATH; ls /.gpu-runtime/tools")
    assert done.stdout.split() == ["mine", "/usr/bin:/bin:/.gpu-runtime/tools", "rsync", "scp"]
