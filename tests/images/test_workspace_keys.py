"""Mode `image`: what a key may do, and who gets in, hold by a stock sshd as by ours."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.images.containers import Client, Pod, Running, until
from tests.images.extended import Extended, unit
from tests.images.test_keys import certify, gets_in, listed, made, public, signed, trusting
from tests.images.test_workspace import ODD

__all__ = ["made", "signed"]  # fixtures


@pytest.fixture
def running(pod: Pod, extended: Extended) -> Iterator[Running]:
    """A unit with variables of every form, whose image's own sshd listens."""
    pod.env |= ODD
    with unit(pod, extended, "sleep", "600") as running:
        until(running.answers)
        yield running


FORCED = 'echo only this; printf %s "$LINES$QUOTES"; echo "$SSH_ORIGINAL_COMMAND"; exit 5'
"""A command that says what it has of the program's variables, and of what the client asked for."""

SAID = f"only this\n{ODD['LINES']}{ODD['QUOTES']}id\n"


def test_a_command_of_a_key_is_the_only_one(pod: Pod, running: Running, made: Path) -> None:
    """It runs in place of whatever is asked for, with the program's variables, and its exit code is the session's."""
    escaped = FORCED.replace('"', '\\"')
    listed(pod, f'restrict,command="{escaped}" {public(made, "ed25519")}')
    client = Client(made, running, "ed25519")
    asked, shell, files = client.ssh("id"), client.fed("id\n"), client.sftp("ls\n")
    assert (asked.stdout, asked.returncode) == (SAID, 5)
    assert (shell.stdout, shell.returncode) == (SAID.replace("id\n", "\n"), 5)
    assert files.returncode != 0


def test_a_command_of_a_certificate_is_the_only_one(pod: Pod, running: Running, signed: Path) -> None:
    """So it is with what a CA allowed."""
    trusting(pod, public(signed, "ca"))
    certify(signed, "ca", "-O", f"force-command={FORCED}")
    asked = Client(signed, running, "ed25519").ssh("id")
    assert (asked.stdout, asked.returncode) == (SAID, 5)


@pytest.mark.parametrize("server", ["internal-sftp", "/usr/lib/openssh/sftp-server"])
def test_a_key_for_files_alone(pod: Pod, running: Running, made: Path, server: str) -> None:
    """A key whose command is an sftp server copies files both ways, and does nothing else."""
    listed(pod, f'restrict,command="{server}" {public(made, "ed25519")}')
    client = Client(made, running, "ed25519")
    copied = client.scp("-s", __file__, f"{client.there}:copied")
    assert copied.returncode == 0, copied.stderr
    assert (pod.path("home") / "copied").read_bytes() == Path(__file__).read_bytes()
    assert "uid" not in client.ssh("id").stdout


def test_what_a_key_leaves_open_is_all_there_is(pod: Pod, running: Running, made: Path) -> None:
    """`restrict` takes the terminal and forwarding, an expired key opens nothing, one that has not expired does."""
    listed(
        pod,
        f"restrict {public(made, 'ed25519')}",
        f'expiry-time="20200101Z" {public(made, "ecdsa-256")}',
        f'expiry-time="22000101000000Z" {public(made, "ecdsa-384")}',
    )
    narrow = Client(made, running, "ed25519")
    assert narrow.ssh("tty", options=("-tt",)).stdout.strip() != "/dev/pts/0"
    through = running.in_network("ssh", *narrow.options, "-p", "2222", "-W", "127.0.0.1:2222", narrow.there)
    assert through.returncode != 0
    assert not gets_in(made, running, "ecdsa-256")
    assert gets_in(made, running, "ecdsa-384")


def test_a_removed_key_is_refused_at_the_next_login(pod: Pod, running: Running, made: Path) -> None:
    """The list is read at each login; who is in it no more is turned away, the others are not."""
    listed(pod, public(made, "ed25519"), public(made, "ecdsa-256"))
    assert gets_in(made, running, "ed25519")
    listed(pod, public(made, "ecdsa-256"))
    assert not gets_in(made, running, "ed25519")
    assert gets_in(made, running, "ecdsa-256")
    (pod.path("keys") / "authorized_keys").unlink()
    assert not gets_in(made, running, "ecdsa-256")


@pytest.mark.parametrize("lost", ["user_ca_keys", "authorized_principals"])
def test_a_key_of_a_removed_ca_is_refused_at_the_next_login(
    pod: Pod, running: Running, signed: Path, lost: str
) -> None:
    """Neither a certificate of a CA that is listed no more, nor one for a principal that is, opens the unit."""
    certify(signed, "ca")
    assert not gets_in(signed, running, "ed25519")
    trusting(pod, public(signed, "ca"))
    assert gets_in(signed, running, "ed25519")
    (pod.path("keys") / lost).write_text("")
    assert not gets_in(signed, running, "ed25519")
    trusting(pod, public(signed, "ca"))
    (pod.path("keys") / lost).unlink()
    assert not gets_in(signed, running, "ed25519")


NEWER = """#!/bin/sh
# Stands for an sshd that knows PerSourcePenalties (OpenSSH 9.8): it takes the word, and without it lets nobody in.
if [ "$1" = -t ]; then exit 0; fi
grep -qx 'PerSourcePenalties no' "$3" || exit 1
/usr/local/sbin/sshd -t -f "$3" || sed -i /^PerSourcePenalties/d "$3"
exec /usr/local/sbin/sshd "$@"
"""


def test_failures_of_one_shut_nobody_out(pod: Pod, keys: Path, extended: Extended, tmp_path: Path) -> None:
    """An sshd that counts failures by address is told not to, one that knows nothing of that starts all the same."""
    shutil.copy(extended.root / "usr/sbin/sshd", tmp_path / "sshd")
    (tmp_path / "newer").write_text(NEWER)
    (tmp_path / "newer").chmod(0o755)
    stands_in = {"/usr/sbin/sshd": (tmp_path / "newer", "ro"), "/usr/local/sbin/sshd": (tmp_path / "sshd", "ro")}
    for pod.volumes in ({}, stands_in):
        with unit(pod, extended, "sleep", "600") as running:
            until(running.answers)
            for _ in range(6):
                assert Client(keys, running, "mallory").ssh("true").returncode == 255
            done = Client(keys, running).ssh("true")
            assert done.returncode == 0, done.stderr
