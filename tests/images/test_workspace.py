"""Mode `image`: images/ssh-workspace as a base, and an image built upon it, with no program of the bundle around."""

import json
import re
import signal
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.images.conftest import unpack
from tests.images.containers import HOME, Client, Pod, Running, until
from tests.images.test_ssh import environment
from tools.images import Image, build
from tools.images.buildah import build_archive

README = Path(__file__).parents[2] / "images/ssh-workspace/README.md"
ODD = {"LINES": "one\ntwo\n", "QUOTES": """a "b" c\\d 'q' #x $HOME %h  two""", "EMPTY": "", "GREEK": "λ"}


@dataclass(frozen=True)
class Extended:
    """An image built upon ours: its root, and what its configuration says."""

    root: Path
    config: dict[str, Any]


@pytest.fixture(scope="session")
def extended(bundle_image: Image, tmp_path_factory: pytest.TempPathFactory) -> Extended:
    """The example of the README, built upon our base as a user would build it."""
    del bundle_image  # skips where nothing can be built
    folder = tmp_path_factory.mktemp("extended")
    folder.chmod(0o755)
    (example,) = re.findall(r"```\n(FROM .*?)```", README.read_text(), re.DOTALL)
    context = folder / "context"
    context.mkdir()
    (context / "Containerfile").write_text("ARG BASE\n" + re.sub(r"^FROM .*", "FROM ${BASE}", example))
    archive, _ = build_archive("extended", context, {"BASE": build("workspace")["workspace"].archive}, folder)
    (folder / "root").mkdir()
    unpack(archive, folder / "root")
    return Extended(folder / "root", configuration(archive))


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
    with pod.started(argv, pod.login) as running:
        yield running


def test_a_login_to_an_image_built_upon_ours(pod: Pod, keys: Path, extended: Extended) -> None:
    """Alice lands in her home, beside the program, in an image that has what was built into it; nobody else gets in."""
    with unit(pod, extended, "sleep", "600") as running:
        until(running.answers)
        done = Client(keys, running).ssh("id -un; pwd; cat $TOOL; ls /.gpu-runtime; cat /proc/1/comm")
        other = Client(keys, running, "mallory").ssh("true")
    assert done.stdout.splitlines() == ["alice", HOME, "what your program needs", "tini"]
    assert other.returncode == 255
    assert "Permission denied (publickey)" in other.stderr


def test_a_session_has_the_environment_of_the_program(pod: Pod, keys: Path, extended: Extended) -> None:
    """Whatever the program was given, a session has too, in a login shell as well: line breaks, GPU variables, PATH."""
    pod.env = {**ODD, **pod.env, "NVIDIA_VISIBLE_DEVICES": "GPU-1", "PATH": "/usr/local/cuda/bin:/usr/bin:/bin"}
    with unit(pod, extended, "sleep", "600") as running:
        until(running.answers)
        client = Client(keys, running)
        command = environment(client.ssh("cat /proc/self/environ").stdout)
        login = environment(client.fed("exec cat /proc/self/environ\n").stdout)
    for session in (command, login):
        assert {name: session.get(name) for name in pod.env} == pod.env


def test_files_and_terminals(pod: Pod, keys: Path, extended: Extended) -> None:
    """scp, by sftp and without, works, and so does a terminal with its exit code."""
    with unit(pod, extended, "sleep", "600") as running:
        until(running.answers)
        client = Client(keys, running)
        copied = [client.scp(flag, __file__, f"{client.there}:copied{flag}").returncode for flag in ("-s", "-O")]
        done = client.ssh("tty; exit 5", options=("-tt",))
    assert copied == [0, 0]
    assert {(pod.path("home") / f"copied{flag}").read_bytes() for flag in ("-s", "-O")} == {Path(__file__).read_bytes()}
    assert (done.stdout.strip(), done.returncode) == ("/dev/pts/0", 5)


def test_the_program_is_cmd_unless_args_say_another(pod: Pod, extended: Extended) -> None:
    """Without args the image's own CMD runs, to its end and with its exit code."""
    with unit(pod, extended) as running:
        out, _ = running.namespaces.communicate(timeout=15)
    assert (out, running.namespaces.returncode) == ("what your program needs\n", 0)


def test_the_program_gets_its_signals(pod: Pod, extended: Extended) -> None:
    """SIGTERM reaches the program, whose exit code is the container's, sshd or not."""
    script = "trap 'exit 7' TERM; touch $HOME/ready; while :; do sleep 0.05; done"
    pod.env["HOME"] = HOME
    with unit(pod, extended, "bash", "-c", script) as running:
        until((pod.path("home") / "ready").exists)
        running.signal(signal.SIGTERM)
        assert running.ends_with() == 7
