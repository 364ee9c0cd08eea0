"""Mode `sidecar`: sshd in a container of the bundle's own image, beside a program that never waits long for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.images.containers import HOME, SH, UID, UNDER_TINI, Client, Pod, Running, until

LISTENING = [SH, "/.gpu-runtime/libexec/listening"]


@contextmanager
def beside(pod: Pod, nothing: Path) -> Iterator[Running]:
    """Start sshd's own container, whose root has no file at all."""
    pod.made_accounts()
    login = {**pod.login, "/etc/passwd": (pod.path("accounts") / "passwd.beside", "ro")}
    mounts = {**pod.tools, **login, "/data": (pod.path("workspace"), "ro")}
    with pod.started([*UNDER_TINI, "/.gpu-runtime/libexec/serve"], mounts, root=nothing) as running:
        until(running.answers)
        yield running


@pytest.fixture
def nothing(tmp_path: Path) -> Path:
    """An empty root."""
    folder = tmp_path / "nothing"
    folder.mkdir()
    return folder


def test_a_login_beside_the_program(workspace: Pod, keys: Path, nothing: Path) -> None:
    """Alice has a shell, her home, the storages and sftp, whatever shell the unit's image gives her."""
    (workspace.path("workspace") / "part").write_text("data\n")
    assert workspace.accounts().returncode == 0
    assert (workspace.path("accounts") / "passwd").read_text().startswith(f"alice:x:{UID}:{UID}::{HOME}:/bin/bash\n")
    with beside(workspace, nothing) as running:
        client = Client(keys, running)
        done = client.ssh("id -un; pwd; echo $SHELL; cat /data/part; touch /data/x || echo read-only")
        copied = client.scp("-O", __file__, f"{client.there}:copied")
    assert done.stdout.split() == ["alice", HOME, SH, "data", "read-only"]
    assert copied.returncode == 0, copied.stderr
    assert (workspace.path("home") / "copied").read_bytes() == Path(__file__).read_bytes()


def test_the_probe_sees_a_listening_sshd(pod: Pod, keys: Path, nothing: Path) -> None:
    """The program's start waits for sshd, and no longer; looking leaves no line in sshd's log."""
    with beside(pod, nothing) as running:
        assert Client(keys, running).ssh(*LISTENING).returncode == 0
        assert "closed" not in (pod.path("run") / "sshd.log").read_text()


def test_the_probe_never_holds_the_program_for_long(pod: Pod, nothing: Path) -> None:
    """Where nothing listens the probe fails at first, and lets the program start a few seconds later."""
    pod.made_accounts()
    looks = "i=0; while ! {}; do i=$((i + 1)); [ $i -lt 90 ] || exit 9; sleep 0.2; done; [ $i -gt 2 ]"
    done = pod.run([SH, "-c", looks.format(" ".join(LISTENING))], pod.tools, root=nothing)
    assert done.returncode == 0, done.stderr


def test_the_probe_lets_go_where_it_cannot_count(pod: Pod, nothing: Path) -> None:
    """A full volume is no reason to hold a program back."""
    pod.made_accounts()
    mounts = {**pod.tools, "/.gpu-runtime-run": (pod.path("run"), "ro")}
    assert pod.run(LISTENING, mounts, root=nothing).returncode == 0
