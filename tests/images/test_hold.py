"""The end of a unit's program: whether its container stays, and who learns of its code."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.images.containers import PATIENCE, SH, Client, Pod, Running, until

BUSYBOX = "/.gpu-runtime/bin/busybox"
NEVER_SOON = "0"
"""With these startSeconds every error is held."""


@pytest.fixture
def held(pod: Pod) -> Pod:
    """Give a pod that is held at any end."""
    pod.env["GPU_RUNTIME_HOLD"] = NEVER_SOON
    return pod


def shell(script: str) -> tuple[str, ...]:
    """Give a command that runs *script*."""
    return (BUSYBOX, "sh", "-c", script)


@contextmanager
def reporter(pod: Pod, bundle_content: Path) -> Iterator[Running]:
    """Start container `exit` of the same pod; its message goes to the file `message`."""
    message = pod.folder / "message"
    message.touch()
    message.chmod(0o666)
    root = pod.folder / "exit-root"
    root.mkdir(exist_ok=True)
    mounts = {
        "/bundle": (bundle_content / "bundle", "ro"),
        "/.gpu-runtime-exit": (pod.path("exit"), "rw"),
        "/dev/termination-log": (message, "rw"),
    }
    command = ["/bundle/bin/tini", "--", "/bundle/bin/sh", "/bundle/libexec/report-exit"]
    with pod.started(command, mounts, root=root) as running:
        until((pod.path("exit") / "code").is_fifo)
        yield running


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -9 $$", 137)])
def test_the_code_is_shown_by_the_sidecar(held: Pod, keys: Path, bundle_content: Path, script: str, code: int) -> None:
    """The program's code, a signal's too, is the sidecar's; the unit's container stays and its owner logs in."""
    with reporter(held, bundle_content) as sidecar, held.main(*shell(script)) as unit:
        assert sidecar.ends_with() == code
        assert (held.folder / "message").read_text().startswith(f"the program ended with {code} after ")
        assert Client(keys, unit).ssh("echo here").stdout == "here\n"
        assert unit.namespaces.poll() is None


def test_the_sidecar_waits_again(held: Pod, keys: Path, bundle_content: Path) -> None:
    """Once it has shown a code it is quiet until the unit's container was started again and its program ended again."""
    with reporter(held, bundle_content) as sidecar, held.main(*shell("exit 4")):
        assert sidecar.ends_with() == 4
    until_told = shell("until [ -e $HOME/go ]; do sleep 0.05; done; exit 5")
    with reporter(held, bundle_content) as sidecar, held.main(*until_told) as unit:
        Client(keys, unit).ssh("true")
        assert sidecar.namespaces.poll() is None
        Client(keys, unit).ssh("touch go")
        assert sidecar.ends_with() == 5


def test_a_late_sidecar_learns_it_too(held: Pod, bundle_content: Path) -> None:
    """A sidecar that was being restarted when the program ended still shows the code."""
    with held.main(*shell("exit 6")), reporter(held, bundle_content) as sidecar:
        assert sidecar.ends_with() == 6


def test_nonsense_in_the_pipe_is_no_code(held: Pod, bundle_content: Path) -> None:
    """The volume is the tenant's to write: what is no code is passed over, and the real one arrives."""
    with reporter(held, bundle_content) as sidecar:
        for line in ("\n", "x 1\n", "256 1\n", "-1 2\n", "7 $(id)\n"):
            until(partial(_written, held.path("exit") / "code", line))
        with held.main(*shell("exit 8")):
            assert sidecar.ends_with() == 8


def _written(pipe: Path, line: str) -> bool:
    """Write *line*; a reader that has just had the last one may be about to close the pipe."""
    try:
        pipe.write_text(line)
    except BrokenPipeError:
        return False
    return True


def test_the_sidecar_ends_when_told(held: Pod, bundle_content: Path) -> None:
    """The end of a pod does not wait for it."""
    with reporter(held, bundle_content) as sidecar:
        sidecar.signal(signal.SIGTERM)
        assert sidecar.ends_with() == 128 + signal.SIGTERM


def test_an_early_error_is_not_held(pod: Pod) -> None:
    """A program that fails at its start is a broken unit: its container ends with the code, and nobody is told."""
    pod.env |= {"GPU_RUNTIME_HOLD": "600", "GPU_RUNTIME_SSH_USER": ""}
    with pod.main(*shell("echo why >&2; exit 9")) as unit:
        assert unit.ends_with() == 9
        assert unit.namespaces.stderr
        assert unit.namespaces.stderr.read() == "why\n"
    assert not (pod.path("exit") / "code").exists()


def test_a_program_that_is_not_there_is_not_held(pod: Pod) -> None:
    """Nor is one that cannot be run at all; the container says which."""
    pod.env |= {"GPU_RUNTIME_HOLD": "10", "GPU_RUNTIME_SSH_USER": ""}
    pod.image_file("/data", "no program", 0o644)
    for program, code, why in (("train", 127, "No such file or directory"), ("/data", 126, "Permission denied")):
        with pod.main(program) as unit:
            assert unit.ends_with() == code
            assert unit.namespaces.stderr
            assert f"cannot run {program}: {why}" in unit.namespaces.stderr.read()


def test_an_early_end_without_an_error_is_held(pod: Pod, keys: Path) -> None:
    """A program that starts others and leaves keeps its container, and what it started."""
    pod.env["GPU_RUNTIME_HOLD"] = "600"
    with pod.main(*shell("(setsid sleep 300 &); exit 0")) as unit:
        assert "sleep 300" in Client(keys, unit).ssh("ps -o args").stdout
        assert unit.namespaces.poll() is None


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGWINCH])
def test_a_held_container_ends_at_once_with_the_code(held: Pod, told: signal.Signals) -> None:
    """The signal that ends a pod, whichever the image names, ends a held one without its grace."""
    with held.main(*shell("exit 3")) as unit:
        until((held.path("exit") / "code").is_fifo)
        unit.signal(told)
        assert unit.ends_with() == 3


def test_a_program_that_is_told_to_end_is_not_held(held: Pod) -> None:
    """SIGTERM reaches the program; its own code is the container's, without a wait for somebody who looks."""
    script = "trap 'exit 7' TERM; touch $HOME/ready; while :; do sleep 0.05; done"
    with held.main(*shell(script)) as unit:
        until((held.path("home") / "ready").exists)
        unit.signal(signal.SIGTERM)
        assert unit.ends_with() == 7
    assert not (held.path("exit") / "code").exists()


def test_a_program_that_ignores_sigterm_goes_on(held: Pod, keys: Path) -> None:
    """It has its grace, which is the kubelet's to end; it is not ended before."""
    script = "trap '' TERM; touch $HOME/ready; sleep 600"
    with held.main(*shell(script)) as unit:
        until((held.path("home") / "ready").exists)
        unit.signal(signal.SIGTERM)
        assert "sleep 600" in Client(keys, unit).ssh("ps -o args").stdout
        assert unit.namespaces.poll() is None


def test_other_signals_reach_the_program(held: Pod, keys: Path) -> None:
    """A program that writes down where it is at SIGUSR1 does so, and lives."""
    script = "trap 'echo again >> $HOME/said' USR1; touch $HOME/ready; while :; do sleep 0.05; done"
    with held.main(*shell(script)) as unit:
        until((held.path("home") / "ready").exists)
        unit.signal(signal.SIGUSR1)
        until((held.path("home") / "said").exists)
        assert Client(keys, unit).ssh("cat said").stdout == "again\n"


WORLD = """
read -r pid comm state ppid pgrp session rest < /proc/$$/stat
[ $pgrp = $$ ] && echo leads its group
echo session $session
grep -E '^Sig(Blk|Ign)' /proc/$$/status
ls -l /proc/$$/fd > $GPU_RUNTIME_HOME/open
sed 's/.*-> //; s/:.*//' < $GPU_RUNTIME_HOME/open | sort -u
pwd; umask; ulimit -n
cat
cat /proc/$$/environ | tr '\\0' '\\n' | grep -v GPU_RUNTIME_HOLD
"""


def test_the_program_sees_the_world_as_without(pod: Pod) -> None:
    """Process group, session, signals, open files, folder, mask, standard input and environment are the same held."""
    pod.env["GPU_RUNTIME_SSH_USER"] = ""
    seen = []
    for hold in (None, "600"):
        pod.env |= {"GPU_RUNTIME_HOLD": hold} if hold else {}
        with pod.main(*shell(f"{WORLD}; exit 1")) as unit:
            out, _ = unit.namespaces.communicate(timeout=PATIENCE)
            seen.append(out)
    assert "leads its group" in seen[0]
    assert seen[0] == seen[1]


def test_the_kernel_takes_the_program_before_sshd(pod: Pod, keys: Path) -> None:
    """Out of memory, a program of many small processes is a likelier victim than the way in."""
    pod.env["GPU_RUNTIME_HOLD"] = "10"
    with pod.main(BUSYBOX, "sleep", "600") as unit:
        look = "for p in /proc/[0-9]*; do echo $(cat $p/comm) $(cat $p/oom_score_adj); done"
        scores = dict(line.rsplit(" ", 1) for line in Client(keys, unit).ssh(look).stdout.splitlines() if " " in line)
    assert int(scores["busybox"]) > int(scores["sshd"])


def test_nothing_is_held_without_the_word(pod: Pod) -> None:
    """`afterExit: restart` ends the container with the program's code."""
    pod.env["GPU_RUNTIME_SSH_USER"] = ""
    with pod.main(SH, "-c", "exit 5") as unit:
        assert unit.ends_with() == 5
