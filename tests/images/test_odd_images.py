"""Images, users and volumes as they come: a login works in all of them, and says why where nothing can."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.images.containers import HOME, PATIENCE, UID, Client, Pod, Running, until

BUSYBOX = "/.gpu-runtime/bin/busybox"
SLEEP = (BUSYBOX, "sleep", "600")
STRANGER = 21234
CGROUPS = Path("/sys/fs/cgroup")


def counting(cgroups: Path, of: str) -> tuple[Path, Path] | None:
    """Give where groups with a limit of processes are made, and the group that a process is in.

    *cgroups* is where they are mounted, and *of* what /proc tells of the process: the controller of version 1 is a tree
    of its own, whose root takes any process back; in version 2 a process goes back to where it was. None: neither.
    """
    if (cgroups / "pids").is_dir():
        return cgroups / "pids", cgroups / "pids"
    offered = cgroups / "cgroup.controllers"
    inside = [line.removeprefix("0::/") for line in of.splitlines() if line.startswith("0::/")]
    if inside and offered.is_file() and "pids" in offered.read_text().split():
        return cgroups, cgroups / inside[0]
    return None


PIDS = counting(CGROUPS, Path("/proc/self/cgroup").read_text())
"""Of the tests themselves, whose containers are in their group."""


@contextmanager
def without_processes(running: Running) -> Iterator[None]:
    """Let a container start no process more than it has, as one whose program has started thousands."""
    assert PIDS is not None
    parent, home = PIDS
    if (handed := parent / "cgroup.subtree_control").exists():
        handed.write_text("+pids")  # version 2 counts in a group only where its parent says so
    space = _space(Path(f"/proc/{running.process}"))
    group = parent / f"gpu-runtime-test-{running.process}"
    group.mkdir()
    inside = [process.name for process in Path("/proc").glob("[0-9]*") if _space(process) == space]
    try:
        for process in inside:
            with suppress(ProcessLookupError):  # it has ended
                (group / "cgroup.procs").write_text(process)
        (group / "pids.max").write_text("1")  # those that are there may stay
        yield
        (group / "pids.max").write_text("max")
    finally:
        until(lambda: _removed(group, home))  # what is inside may start others while it is led out


def _removed(group: Path, home: Path) -> bool:
    for process in (group / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):  # it has ended
            (home / "cgroup.procs").write_text(process)
    try:
        group.rmdir()
    except OSError:
        return False  # another was started
    return True


def _space(process: Path) -> Path | None:
    try:
        return (process / "ns/pid").readlink()
    except OSError:
        return None  # it has ended


@contextmanager
def full(folder: Path, owner: int, size: str = "100k") -> Iterator[None]:
    """Make *folder* a volume with no byte left."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},uid={owner},mode=0777", "full", folder], check=True)
    try:
        with (folder / "filler").open("wb", buffering=0) as filler:
            while True:
                try:
                    filler.write(b"x" * 4096)
                except OSError:
                    break
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("pod", [STRANGER], indirect=True)
def test_any_uid(pod: Pod, keys: Path) -> None:
    """A uid that no image has heard of has a name, a home and its volumes' group."""
    with pod.main(*SLEEP) as running:
        done = Client(keys, running).ssh("id -un; id -u; pwd; touch mine && stat -c %u mine")
    assert done.stdout.split() == ["alice", str(STRANGER), HOME, str(STRANGER)]


def test_a_read_only_root(pod: Pod, keys: Path, tmp_path: Path) -> None:
    """Nothing of ours writes into the image's own file system; sessions and copies work without it."""
    here = tmp_path / "here"
    here.write_text("data")
    pod.image_file("/etc/passwd", "root:x:0:0::/:/bin/sh\n")
    pod.read_only_root = True
    with pod.main(*SLEEP) as running:
        client = Client(keys, running)
        assert client.ssh("touch /new; id -un").stdout == "alice\n"
        assert client.sftp(f"put {here} there").returncode == 0
    assert (pod.path("home") / "there").read_text() == "data"


def test_an_image_with_a_user_of_its_own(pod: Pod, keys: Path) -> None:
    """The image's USER is not ours: its files stay its own, which the unit reads and does not write."""
    pod.image_file("/etc/passwd", "app:x:999:999::/app:/bin/false\n")
    os.chown(pod.image_file("/app/model", "weights"), 999, 999)
    with pod.main(*SLEEP) as running:
        done = Client(keys, running).ssh(
            "id -un; cat /app/model; echo; echo x >> /app/model || echo refused; grep -o ^app /etc/passwd"
        )
    assert done.stdout.split() == ["alice", "weights", "refused", "app"]


def test_a_home_in_the_image_that_is_somebody_elses(pod: Pod, keys: Path) -> None:
    """What was another's in the image's home is the unit's in the home volume, so that it can be written."""
    os.chown(pod.image_file(f"{HOME}/settings", "old"), 999, 999)
    with pod.main(*SLEEP) as running:
        assert Client(keys, running).ssh("echo new > settings; stat -c %u settings").stdout == f"{pod.uid}\n"


def test_broken_account_files(pod: Pod, keys: Path) -> None:
    """Accounts without a line's end, with empty and short lines, keep nobody out."""
    pod.image_file("/etc/passwd", "\n:::\nbroken\nalice:x:7:7::/nowhere:/bin/false")
    pod.image_file("/etc/group", "\n:\nalice:x\nalice:x:7:")
    with pod.main(*SLEEP) as running:
        assert Client(keys, running).ssh("id -un; id -gn").stdout.split() == ["alice", "gid1000"]


def test_a_full_home(pod: Pod, keys: Path) -> None:
    """Whoever filled the home can log in, terminal included, and make room."""
    assert pod.accounts().returncode == 0
    with full(pod.path("home"), pod.uid):
        (pod.path("home") / ".gpu-runtime-seeded").touch()
        with pod.main(*SLEEP) as running:
            client = Client(keys, running)
            refused = client.ssh("echo x > more")
            assert "No space left" in refused.stderr
            done = client.ssh("rm -f filler && echo x > more && echo room", options=("-tt",))
    assert done.stdout.strip() == "room"


def test_a_full_tmp(pod: Pod, keys: Path, tmp_path: Path) -> None:
    """Sessions need no byte of /tmp."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    pod.volumes["/tmp"] = (folder, "rw")  # noqa: S108 - a mount path inside the container
    with full(folder, pod.uid), pod.main(*SLEEP) as running:
        client = Client(keys, running)
        assert "No space left" in client.ssh("echo x > /tmp/more").stderr
        assert client.ssh("tty; id -un", options=("-tt",)).stdout.split() == ["/dev/pts/0", "alice"]


def test_processes_are_counted_in_either_version(tmp_path: Path) -> None:
    """Version 1 has a tree for it; version 2 has one for all, where it must be offered; else nothing is limited."""
    assert counting(tmp_path, "0::/a/b\n") is None
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert counting(tmp_path, "0::/a/b\n") is None
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    assert counting(tmp_path, "4:pids:/x\n") is None
    assert counting(tmp_path, "0::/a/b\n") == (tmp_path, tmp_path / "a/b")
    assert counting(tmp_path, "0::/\n") == (tmp_path, tmp_path)
    (tmp_path / "pids").mkdir()
    assert counting(tmp_path, "4:pids:/x\n0::/\n") == (tmp_path / "pids", tmp_path / "pids")


@pytest.mark.skipif(
    PIDS is None or not os.access(PIDS[0], os.W_OK), reason="needs a controller of process counts that may be written"
)
def test_a_container_full_of_processes(pod: Pod, keys: Path) -> None:
    """While no process can be started nobody logs in; afterwards everybody does again, and it is written down."""
    log = pod.path("run") / "sshd.log"
    with pod.main(*SLEEP) as running:
        client = Client(keys, running)
        with without_processes(running):
            assert client.ssh("true").returncode == 255
        until(lambda: client.ssh("true").returncode == 0)
        until(lambda: "Accepted publickey" in log.read_text())


def test_a_program_that_closes_its_files(pod: Pod, keys: Path) -> None:
    """A daemon that closes standard input, output and error lives on, and so does the way in."""
    with pod.main(BUSYBOX, "sh", "-c", "exec 0<&- 1>&- 2>&-; sleep 600") as running:
        client = Client(keys, running)
        assert client.ssh("id -un").stdout == "alice\n"
        assert running.namespaces.poll() is None


@pytest.mark.parametrize("arguments", [("",), ("a b", "c'd"), ("-x", "--", "$HOME"), ("λ" * 1000,)])
def test_arguments_arrive_as_given(pod: Pod, arguments: tuple[str, ...]) -> None:
    """Whatever a command is made of reaches the program, held or not."""
    pod.env |= {"GPU_RUNTIME_SSH_USER": ""}
    wanted = "".join(f"[{argument}]\n" for argument in arguments)
    for hold in ({}, {"GPU_RUNTIME_HOLD": "600"}):
        pod.env |= hold
        with pod.main(BUSYBOX, "sh", "-c", "printf '[%s]\\n' \"$@\"; exit 1", "sh", *arguments) as running:
            out, _ = running.namespaces.communicate(timeout=PATIENCE)
        assert out == wanted


@pytest.mark.parametrize("pod", [0], indirect=True)
def test_root_without_a_right(pod: Pod, keys: Path, tmp_path: Path) -> None:
    """Root of a user namespace has no capability; sshd needs none, though it is user 0: sessions, terminals, copies."""
    here = tmp_path / "here"
    here.write_text("data")
    with pod.main(*SLEEP) as running:
        client = Client(keys, running)
        assert client.ssh("id -u; id -un; grep CapBnd /proc/self/status").stdout.split()[:2] == ["0", "alice"]
        assert client.ssh("tty; exit 5", options=("-tt",)).stdout.strip() == "/dev/pts/0"
        assert client.ssh("exit 5").returncode == 5
        assert client.sftp(f"put {here} there").returncode == 0
        assert Client(keys, running, "mallory").ssh("true").returncode == 255
    assert (pod.path("home") / "there").read_text() == "data"


@pytest.mark.parametrize("name", ["a" * 32, "_x-1"])
def test_login_names_at_the_limit(pod: Pod, keys: Path, name: str) -> None:
    """The longest login name that a stack file takes logs in."""
    pod.env["GPU_RUNTIME_SSH_USER"] = name
    with pod.main(*SLEEP) as running:
        assert Client(keys, running).ssh("id -un", user=name).stdout.strip() == name


@pytest.mark.parametrize("pod", [0, UID], indirect=True)
def test_a_new_host_key_is_shown_without_a_restart(pod: Pod, keys: Path, tmp_path: Path) -> None:
    """Whoever pinned the new one comes in, by whichever uid the unit runs; the program and a session stay."""
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:2222 {(keys / 'mallory.pub').read_text()}")
    shutil.copy(keys / "alice", tmp_path)
    there = pod.path("host") / "ssh_host_ed25519_key"
    with pod.main(*SLEEP) as running:
        knows_new = Client(tmp_path, running)
        with Client(keys, running).kept("cat") as before:
            assert "HOST IDENTIFICATION HAS CHANGED" in knows_new.ssh("true").stderr
            fresh = there.with_name("fresh")
            shutil.copy(keys / "mallory", fresh)
            fresh.chmod(0o444)
            fresh.replace(there)
            until(lambda: knows_new.ssh("true").returncode == 0)
            out, _ = before.communicate(b"still here", timeout=PATIENCE)
        assert out == b"still here"
        assert running.namespaces.poll() is None
