"""sshd in a user's container: who gets in, what they find there, and that the user's command never suffers from it."""

import signal
from pathlib import Path

import pytest

from tests.images.containers import HOME, UID, Client, Pod, Running, until

BUSYBOX = "/.gpu-runtime/bin/busybox"
SLEEP = (BUSYBOX, "sleep", "600")
OF_THE_LOGIN = {"HOME", "LOGNAME", "MAIL", "SHELL", "SSH_CLIENT", "SSH_CONNECTION", "USER"}
"""What sshd says itself."""

TOOLS = ":/.gpu-runtime/tools"
"""What every session has at the end of PATH."""

PROFILE = """PATH=/usr/local/bin:/usr/bin:/bin
for script in /etc/profile.d/*.sh; do . $script; done
"""
"""What Debian's does."""


def environment(block: str) -> dict[str, str]:
    """Read what /proc/<pid>/environ has."""
    return dict(entry.split("=", 1) for entry in block.split("\0") if entry)


def sshd(running: Running) -> list[str]:
    """Return the process ids of sshd's listener, as this machine counts."""
    listing = running.in_network("ss", "-Hltnp", "sport = :2222").stdout
    return [part.split(",")[0] for part in listing.split("pid=")[1:]]


def test_login_lands_in_the_users_container(pod: Pod, keys: Path) -> None:
    """Alice is the container's own uid without any right, in her home, in an image that has no file at all."""
    with pod.main(*SLEEP) as running:
        done = Client(keys, running).ssh(
            "id -u; pwd; cat /proc/1/comm; grep -E '^(CapBnd|NoNewPrivs)' /proc/self/status"
        )
    assert done.stdout.split() == [str(UID), HOME, "tini", "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]


def test_exit_code_and_terminal(pod: Pod, keys: Path) -> None:
    """A session has its own exit code, and a terminal when it asks for one."""
    with pod.main(*SLEEP) as running:
        done = Client(keys, running).ssh("tty; exit 5", options=("-tt",))
    assert (done.stdout.strip(), done.returncode) == ("/dev/pts/0", 5)


@pytest.mark.parametrize(("key", "user"), [("mallory", "alice"), ("alice", "root"), ("alice", "mallory")])
def test_nobody_else_gets_in(pod: Pod, keys: Path, key: str, user: str) -> None:
    """Only the listed key opens only the unit's user, and nothing but a key is asked for."""
    with pod.main(*SLEEP) as running:
        done = Client(keys, running, key).ssh("true", user=user)
    assert done.returncode == 255
    assert "Permission denied (publickey)" in done.stderr


def test_a_key_list_in_the_home_is_not_read(pod: Pod, keys: Path) -> None:
    """Nobody lets others in but by the unit's own list."""
    mine = pod.path("home") / ".ssh/authorized_keys"
    mine.parent.mkdir()
    mine.write_text((keys / "mallory.pub").read_text())
    with pod.main(*SLEEP) as running:
        assert Client(keys, running, "mallory").ssh("true").returncode == 255


def test_environment_is_that_of_the_main_process(pod: Pod, keys: Path) -> None:
    """Whatever the main process was given, a session has too: odd names, quotes, newlines, GPU variables, PATH."""
    pod.env |= {
        "NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2",
        "PATH": "/usr/local/cuda/bin:/usr/bin",
        "EMPTY": "",
        "QUOTES": """a "b" c\\d 'q' #x $HOME %h  two""",
        "LINES": "one\ntwo\n",
        "spring.profile": "a-b",
        "GREEK": "λ",
    }
    with pod.main(BUSYBOX, "sh", "-c", "cat /proc/$$/environ > $HOME/main; exec sleep 600") as running:
        until((pod.path("home") / "main").exists)
        session = environment(Client(keys, running).ssh("cat /proc/$$/environ; true").stdout)
    main = environment((pod.path("home") / "main").read_text())
    assert pod.env.items() <= main.items()
    given = {name: value for name, value in main.items() if not name.startswith("GPU_RUNTIME_")}
    given["PATH"] += TOOLS
    assert {name: value for name, value in session.items() if name not in OF_THE_LOGIN} == {
        name: value for name, value in given.items() if name not in OF_THE_LOGIN
    }
    assert (session["HOME"], session["USER"]) == (main["HOME"], "alice") == (HOME, "alice")


def test_a_login_shell_keeps_the_path(pod: Pod, keys: Path) -> None:
    """/etc/profile of an image sets PATH; the GPU tools of the container's own PATH are found all the same."""
    pod.env["PATH"] = "/usr/local/cuda/bin:/opt/it's:/bin"
    pod.image_file("/etc/profile", PROFILE)
    with pod.main(*SLEEP) as running:
        done = Client(keys, running).ssh(f"{BUSYBOX} sh -lc 'echo $PATH'")
    assert done.stdout.strip() == pod.env["PATH"] + TOOLS


def test_files_go_both_ways(pod: Pod, keys: Path, tmp_path: Path) -> None:
    """Copying files needs nothing of the image."""
    here, back = tmp_path / "here", tmp_path / "back"
    here.write_bytes(bytes(range(256)) * 4096)
    with pod.main(*SLEEP) as running:
        done = Client(keys, running).sftp(f"put {here} there\nget there {back}\n")
    assert done.returncode == 0, done.stderr
    assert back.read_bytes() == here.read_bytes()


def test_a_dead_sshd_comes_back(pod: Pod, keys: Path) -> None:
    """Killing it costs the user's command nothing, and the next login works."""
    with pod.main(*SLEEP) as running:
        (listener,) = set(sshd(running))
        running.in_network("kill", "-9", listener)
        until(lambda: set(sshd(running)) - {listener})
        assert Client(keys, running).ssh("true").returncode == 0
        assert running.namespaces.poll() is None


def test_what_a_session_leaves_behind_is_reaped(pod: Pod, keys: Path) -> None:
    """No zombies: process 1 takes in what nobody waits for."""
    with pod.main(*SLEEP) as running:
        client = Client(keys, running)
        client.ssh("for i in 1 2 3; do (sleep 0.1 &); done; sleep 0.3")
        until(lambda: "zombie" not in client.ssh("grep -h State /proc/[0-9]*/status").stdout)


def test_health_checks_leave_no_trace(pod: Pod, keys: Path) -> None:
    """The tunnel looks at the port every few seconds, for months; only who really came is in the log."""
    with pod.main(*SLEEP) as running:
        for _ in range(5):
            running.in_network("nc", "-z", "127.0.0.1", "2222")
        Client(keys, running).ssh("true")
        log = pod.path("run") / "sshd.log"
        until(lambda: "Accepted publickey for alice" in log.read_text())
        assert "closed by" not in log.read_text()


def test_the_main_process_keeps_its_signals_and_its_exit_code(pod: Pod) -> None:
    """SIGTERM reaches the user's command, and the container ends with the command's own status."""
    script = "trap 'exit 7' TERM; touch $HOME/ready; while :; do sleep 0.05; done"
    with pod.main(BUSYBOX, "sh", "-c", script) as running:
        until((pod.path("home") / "ready").exists)
        running.signal(signal.SIGTERM)
        assert running.ends_with() == 7


def test_the_command_is_looked_up_on_its_own_path(pod: Pod) -> None:
    """A program of the image wins over a busybox program of the same name."""
    pod.image_file("/usr/bin/sleep", "#!/.gpu-runtime/bin/sh\nexit 9\n", 0o755)
    pod.env["GPU_RUNTIME_SSH_USER"] = ""
    with pod.main("sleep", "0") as running:
        assert running.ends_with() == 9


def test_a_command_that_is_not_there(pod: Pod) -> None:
    """The container says which, and ends as a shell would."""
    pod.env["GPU_RUNTIME_SSH_USER"] = ""
    with pod.main("train") as running:
        assert running.ends_with() == 127
        assert running.namespaces.stderr
        assert "cannot run train: No such file or directory" in running.namespaces.stderr.read()


def test_an_idle_unit_ends_when_told(pod: Pod) -> None:
    """Without a command the unit waits, and obeys at once."""
    with pod.main() as running:
        running.signal(signal.SIGTERM)
        assert running.ends_with() == 0


def test_no_user_no_sshd(pod: Pod) -> None:
    """A unit without SSH runs its command and nothing else."""
    pod.env["GPU_RUNTIME_SSH_USER"] = ""
    with pod.main(BUSYBOX, "sh", "-c", "sleep 1; ls /.gpu-runtime-run; ps") as running:
        out, _ = running.namespaces.communicate()
    assert "sshd" not in out
