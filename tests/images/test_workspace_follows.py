"""Mode `image`: what a stock sshd reads at its start alone follows what is mounted; the program never notices."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.images.containers import HOME, PATIENCE, Client, Pod, Running, until
from tests.images.extended import Extended, unit

BACK = ("-o", "ExitOnForwardFailure=yes", "-R", "5003:127.0.0.1:9")


@contextmanager
def started_once(pod: Pod, extended: Extended) -> Iterator[Running]:
    """Have a unit whose program is started once, and runs to the end of the block."""
    pod.env["HOME"] = HOME
    with unit(pod, extended, "sh", "-c", "echo started >> $HOME/starts; exec sleep 600") as running:
        until(running.answers)
        yield running
        assert running.namespaces.poll() is None
        assert (pod.path("home") / "starts").read_text() == "started\n"


def test_forwarding_follows_the_stack(pod: Pod, keys: Path, extended: Extended) -> None:
    """-R that the stack allows no more is refused to new logins, and granted anew when it does; open sessions stay."""
    word = pod.path("keys") / "forwarding"
    word.write_text("all\n")
    with started_once(pod, extended) as running:
        client = Client(keys, running)
        assert client.ssh("true", options=BACK).returncode == 0
        with client.kept("cat") as before:
            word.unlink()
            until(lambda: "remote port forwarding failed" in client.ssh("true", options=BACK).stderr)
            assert client.ssh("true").returncode == 0
            word.write_text("all\n")
            until(lambda: client.ssh("true", options=BACK).returncode == 0)
            out, _ = before.communicate(b"still here", timeout=PATIENCE)
    assert out == b"still here"


KEEPS = """#!/bin/sh
# Stands for an sshd that reads its host key at its start alone (OpenSSH 9.8).
umask 077
if [ "$1" = -D ]; then
    kept=$(mktemp)
    cat /.gpu-runtime-host/ssh_host_ed25519_key > $kept
    sed -i "s,^HostKey .*,HostKey $kept," "$3"
fi
exec /usr/local/sbin/sshd "$@"
"""


def test_the_host_key_follows_what_is_mounted(pod: Pod, keys: Path, extended: Extended, tmp_path: Path) -> None:
    """A new host key is soon that of new logins; one that is gone ends nothing."""
    shutil.copy(extended.root / "usr/sbin/sshd", tmp_path / "sshd")
    (tmp_path / "keeps").write_text(KEEPS)
    (tmp_path / "keeps").chmod(0o755)
    pod.volumes = {"/usr/sbin/sshd": (tmp_path / "keeps", "ro"), "/usr/local/sbin/sshd": (tmp_path / "sshd", "ro")}
    mounted, ours = pod.path("host") / "ssh_host_ed25519_key", (keys / "host").read_bytes()
    with started_once(pod, extended) as running:
        client = Client(keys, running)
        with client.kept("cat") as before:
            mounted.write_bytes(another(tmp_path))
            until(lambda: "Host key verification failed" in client.ssh("true").stderr)
            mounted.write_bytes(b"")
            mounted.write_bytes(ours)
            until(lambda: client.ssh("true").returncode == 0)
            out, _ = before.communicate(b"still here", timeout=PATIENCE)
    assert out == b"still here"


def another(folder: Path) -> bytes:
    """Make a host key."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "another"], check=True)
    return (folder / "another").read_bytes()
