"""A session lives as long as its key is admitted: who loses it, who keeps it, and what is said of it."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.images.containers import HOME, UID, USER, Client, Pod, Running, until
from tests.images.test_ssh import BUSYBOX, SLEEP, sshd

STAYS = "while :; do echo here; sleep 0.1; done"
"""A session that says all the time that it is there."""


def admit(pod: Pod, keys: Path, *who: str, options: str = "") -> None:
    """Write the unit's list anew, in one step."""
    lines = [options + (keys / f"{name}.pub").read_text() for name in who]
    new = pod.path("keys") / ".new"
    new.write_text("".join(lines))
    new.rename(pod.path("keys") / "authorized_keys")


@contextmanager
def session(client: Client, *options: str, command: str = STAYS) -> Iterator[subprocess.Popen[str]]:
    """Hold a connection open for a while; one with a command is there once it has said something."""
    target = ["-p", "2222", f"{USER}@127.0.0.1", *([command] if command else [])]
    enter = ["nsenter", f"--target={client.running.namespaces.pid}", "--net"]
    argv, pipe = [*enter, "ssh", *client.options, *options, *target], subprocess.PIPE
    with subprocess.Popen(argv, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            if command:
                assert process.stdout
                assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> bool:
    """Whether a client's process is over; what it printed is thrown away, so that it never waits for us."""
    assert process.stdout
    os.set_blocking(process.stdout.fileno(), False)
    with suppress(BlockingIOError):
        while os.read(process.stdout.fileno(), 65536):
            pass
    return process.poll() is not None


def audit(pod: Pod) -> list[str]:
    """Give the audit log's lines."""
    log = pod.path("run") / "audit.log"
    return log.read_text().splitlines() if log.exists() else []


def processes_of_sessions(running: Running) -> list[int]:
    """Give the processes that serve a session, as this machine counts."""
    listing = running.in_network("ss", "-Htnp", "state", "established", "sport = :2222").stdout
    return sorted({int(number) for number in re.findall(r"pid=(\d+)", listing)})


@pytest.mark.parametrize("pod", [UID, 0], indirect=True)
def test_a_removed_keys_session_ends_and_anothers_stays(pod: Pod, keys: Path) -> None:
    """Alice's key is taken from the list: her session ends and she cannot come back; Mallory's session goes on."""
    admit(pod, keys, "alice", "mallory")
    with (
        pod.main(*SLEEP) as running,
        session(Client(keys, running)) as alice,
        session(Client(keys, running, "mallory")) as mallory,
    ):
        admit(pod, keys, "mallory")
        until(lambda: ended(alice))
        assert alice.stderr
        assert "no longer admitted" in alice.stderr.read()
        assert Client(keys, running).ssh("true").returncode == 255
        assert not ended(mallory)
        assert Client(keys, running, "mallory").ssh("true").returncode == 0


def test_an_added_key_opens_at_once(pod: Pod, keys: Path) -> None:
    """The list is read at each login: nothing is started again, and nobody's session suffers."""
    with pod.main(*SLEEP) as running, session(Client(keys, running)) as alice:
        assert Client(keys, running, "mallory").ssh("true").returncode == 255
        admit(pod, keys, "alice", "mallory")
        assert Client(keys, running, "mallory").ssh("true").returncode == 0
        assert not ended(alice)


def test_connections_without_a_shell_end_too(pod: Pod, keys: Path, tmp_path: Path) -> None:
    """A forwarding alone, one through which bytes run, sftp, and what shares a connection are ended as a shell is."""
    control = f"ControlPath={tmp_path / 'control'}"
    with pod.main(*SLEEP) as running:
        client = Client(keys, running)
        with (
            session(client, "-N", "-L", "127.0.0.1:4000:127.0.0.1:2222", command="") as forwarding,
            session(client, "-s", "-v", command="") as sftp,
            session(client, "-N", "-M", "-o", control, command="") as master,
        ):
            until(lambda: len(processes_of_sessions(running)) >= 3 and (tmp_path / "control").exists())
            with session(client, "-o", control) as shared:
                until(lambda: running.in_network("nc", "-z", "127.0.0.1", "4000").returncode == 0)
                admit(pod, keys)
                until(lambda: all(ended(process) for process in (forwarding, sftp, master, shared)))
        until(lambda: processes_of_sessions(running) == [])


def test_an_emptied_list_and_no_list_admit_nobody(pod: Pod, keys: Path) -> None:
    """Without keys all sessions end and nobody gets in; sshd goes on, and the next list opens again."""
    with pod.main(*SLEEP) as running:
        client = Client(keys, running)
        (listener,) = set(sshd(running))
        for close in (partial(admit, pod, keys), (pod.path("keys") / "authorized_keys").unlink):
            with session(client) as one:
                close()
                until(partial(ended, one))
            assert client.ssh("true").returncode == 255
            admit(pod, keys, "alice")
            assert client.ssh("true").returncode == 0
        assert set(sshd(running)) == {listener}


def test_a_list_swapped_as_the_kubelet_does_cuts_nobody(pod: Pod, keys: Path) -> None:
    """A mounted ConfigMap changes by a link to another folder, and the old one goes: whose key stays, stays."""
    folder = pod.path("keys")
    (folder / "authorized_keys").unlink()
    (folder / "authorized_keys").symlink_to("..data/authorized_keys")
    with pod.main(*SLEEP) as running:
        swap(folder, keys, 0)
        with session(Client(keys, running)) as alice:
            for turn in range(1, 60):
                swap(folder, keys, turn)
                assert not ended(alice)
                until(lambda: processes_of_sessions(running))


def swap(folder: Path, keys: Path, turn: int) -> None:
    """Put a list of Alice's key into a new folder, point there, and remove the last folder."""
    (folder / f"..{turn}").mkdir()
    shutil.copy(keys / "alice.pub", folder / f"..{turn}/authorized_keys")
    (folder / "..next").symlink_to(f"..{turn}")
    (folder / "..next").rename(folder / "..data")
    shutil.rmtree(folder / f"..{turn - 1}", ignore_errors=True)


def test_processes_stay(pod: Pod, keys: Path) -> None:
    """Taking a key ends access, not work: what the user left running runs on."""
    with pod.main(*SLEEP) as running:
        beats = f"while :; do date >> {HOME}/beat; sleep 0.1; done"
        client = Client(keys, running)
        client.ssh(f"{BUSYBOX} setsid {BUSYBOX} sh -c '{beats}' > /dev/null 2>&1 < /dev/null &")
        with session(client) as alice:
            admit(pod, keys)
            until(lambda: ended(alice))
        beat = pod.path("home") / "beat"
        size = beat.stat().st_size
        until(lambda: beat.stat().st_size > size)


def test_a_client_that_does_not_listen_is_ended(pod: Pod, keys: Path) -> None:
    """A client that is stopped and reads nothing, so that no farewell gets through, loses its session all the same."""
    with pod.main(*SLEEP) as running, session(Client(keys, running), command="echo; exec yes") as alice:
        (client,) = children_named(alice.pid, "ssh") or [alice.pid]
        os.kill(client, signal.SIGSTOP)
        admit(pod, keys)
        until(lambda: not processes_of_sessions(running))


def children_named(pid: int, name: str) -> list[int]:
    """Give the children of a process of this machine that are called *name*."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if Path(f"/proc/{child}/comm").read_text().strip() == name]


def test_a_session_that_was_stopped_does_nothing_more(pod: Pod, keys: Path) -> None:
    """Who stops the process of the own session, to sit the change out, has no session when it goes on."""
    with pod.main(*SLEEP) as running, session(Client(keys, running)) as alice:
        serving = processes_of_sessions(running)
        for process in serving:
            os.kill(process, signal.SIGSTOP)
        admit(pod, keys)
        for process in serving:
            os.kill(process, signal.SIGCONT)
        until(lambda: ended(alice))


def test_a_session_cannot_be_steered_from_beside(pod: Pod, keys: Path) -> None:
    """The processes of sessions are closed to others of the same user: neither memory nor open files can be reached."""
    with pod.main(*SLEEP) as running, session(Client(keys, running)):
        look = "for p in /proc/[0-9]*; do grep -q ^sshd $p/comm && ls -l $p/fd > /dev/null 2>&1 && echo $p; done; true"
        reached = Client(keys, running).ssh(look).stdout.split()
    assert len(reached) <= 1, "only the listener, which has no session, is like any process of the user"


def test_a_certificate_is_as_good_as_its_authority(pod: Pod, keys: Path, tmp_path: Path) -> None:
    """A session by certificate outlives the certificate's end, and ends when its authority is no longer listed."""
    for name in ("ca", "carol"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    shutil.copy(keys / "known_hosts", tmp_path / "known_hosts")
    sign = ["ssh-keygen", "-q", "-s", str(tmp_path / "ca"), "-I", "carol's laptop", "-n", USER, "-V", "-1m:+20s"]
    authority = "cert-authority " + (tmp_path / "ca.pub").read_text()
    (pod.path("keys") / "authorized_keys").write_text(authority + (keys / "mallory.pub").read_text())
    with ExitStack() as stack:
        running = stack.enter_context(pod.main(*SLEEP))
        subprocess.run([*sign, str(tmp_path / "carol.pub")], check=True)
        carol = stack.enter_context(session(Client(tmp_path, running, "carol")))
        until(lambda: Client(tmp_path, running, "carol").ssh("true").returncode == 255)
        assert not ended(carol)
        admit(pod, keys, "mallory")
        until(lambda: ended(carol))
    (start,) = [line for line in audit(pod) if "session-start" in line and "-cert-v01" in line][:1]
    assert start.endswith("serial=0 certificate=carol?s?laptop")


@pytest.mark.parametrize("pod", [UID, 0], indirect=True)
def test_the_audit_log_says_who_came_and_for_how_long(pod: Pod, keys: Path) -> None:
    """One line per start with the key's fingerprint, one per end with the seconds, one where the key was taken."""
    printed = subprocess.run(["ssh-keygen", "-lf", keys / "alice.pub"], check=True, capture_output=True, text=True)
    with pod.main(*SLEEP) as running:
        client = Client(keys, running)
        client.ssh("true")
        until(lambda: len(audit(pod)) == 2)
        with session(client) as alice:
            admit(pod, keys)
            until(lambda: ended(alice))
        until(lambda: len(audit(pod)) == 5)
    start, end, second, revoked, last = audit(pod)
    who = rf"session=\d+ user=alice port=\d+ type=ssh-ed25519 key={re.escape(printed.stdout.split()[1])}"
    assert re.fullmatch(rf"[-0-9]+T[:0-9]+Z session-start {who}", start)
    assert re.fullmatch(rf"\S+ session-end {who} seconds=\d+", end)
    assert start.split()[2] == end.split()[2] != second.split()[2] == last.split()[2]
    assert revoked.split()[1:3] == ["session-revoked", second.split()[2]]


def test_a_session_that_is_killed_is_said_to_end(pod: Pod, keys: Path) -> None:
    """The process that serves a session may die in any way: the one that watches it says that it ended."""
    with pod.main(*SLEEP) as running, session(Client(keys, running)) as alice:
        until(lambda: len(audit(pod)) == 1)
        os.kill(max(processes_of_sessions(running)), signal.SIGKILL)
        until(lambda: ended(alice) and len(audit(pod)) == 2)
    assert " session-end " in audit(pod)[1]


def test_who_ends_the_watchers_does_not_end_the_login(pod: Pod, keys: Path) -> None:
    """Whatever of ours the user kills or removes, the login comes back, its log with it, and sessions are untouched."""
    with pod.main(*SLEEP) as running:
        client = Client(keys, running)
        with session(client) as alice:
            for script in ("libexec/serve", "libexec/keep-log"):
                client.ssh(
                    "rm -rf /.gpu-runtime-run/*; mkdir /.gpu-runtime-run/sshd_config /.gpu-runtime-run/audit.log"
                )
                client.ssh(f"kill -9 $(grep -l {script} /proc/[0-9]*/cmdline | cut -d/ -f3 | grep -v $$)")
                until(lambda: client.ssh("true").returncode == 0)
                until(lambda: any("session-end" in line for line in audit(pod)))
            assert not ended(alice)


def test_the_logs_stay_small(pod: Pod, keys: Path) -> None:
    """The volume of the logs is in memory and has a limit: each log is turned over long before."""
    with pod.main(*SLEEP) as running:
        for name in ("audit.log", "sshd.log"):
            file = pod.path("run") / name
            file.write_text("x" * 409_600 + "\n")
            os.chown(file, UID, UID)
            file.chmod(0o600)
        Client(keys, running).ssh("true")
        until(lambda: len(audit(pod)) == 2 and (pod.path("run") / "sshd.log").stat().st_size < 4096)
        assert {file.name for file in pod.path("run").glob("*.log*")} == {
            *("audit.log", "audit.log.1", "sshd.log", "sshd.log.1")
        }
