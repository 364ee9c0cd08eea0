"""Mode `image`: images/ssh-workspace as a base, and an image built upon it, with no program of the bundle around."""

import signal
from pathlib import Path

from tests.images.containers import HOME, PATIENCE, Client, Pod, until
from tests.images.extended import Extended, unit
from tests.images.test_ssh import TOOLS, environment

ODD = {"LINES": "one\ntwo\n", "QUOTES": """a "b" c\\d 'q' #x $HOME %h  two""", "EMPTY": "", "GREEK": "λ"}


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


def test_a_session_has_the_shell_of_the_image(pod: Pod, keys: Path, extended: Extended) -> None:
    """Whatever uid the unit has: the image's `ENV SHELL`, or bash; what it starts keeps its variables."""
    pod.uid = 21234
    for shell in ("/bin/bash", "/bin/dash"):
        with unit(pod, extended, "sleep", "600") as running:
            until(running.answers)
            again = "WORD=mine /usr/local/lib/ssh-workspace/session -c 'echo $WORD'"
            done = Client(keys, running).ssh(f"echo $SHELL; readlink /proc/$$/exe; {again}")
        assert done.stdout.splitlines() == [shell, f"/usr{shell}", "mine"]
        assert done.stderr == ""
        pod.env |= {"SHELL": "/bin/dash", "UID": "5", "WORD": "the program's"}


def test_the_base_in_mode_workload(pod: Pod, keys: Path, extended: Extended) -> None:
    """Our own sshd has given a session all that it needs: the image's shell takes nothing away."""
    pod.image = extended.root
    pod.env |= {**dict(entry.split("=", 1) for entry in extended.config["Env"]), **ODD}
    with pod.main("sleep", "600") as running:
        done = environment(Client(keys, running).ssh("cat /proc/self/environ").stdout)
    assert done["SHELL"] == "/bin/bash"
    assert done["PATH"] == pod.env["PATH"] + TOOLS
    assert {name: done[name] for name in ODD} == ODD


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
        out, _ = running.namespaces.communicate(timeout=PATIENCE)
    assert (out, running.namespaces.returncode) == ("what your program needs\n", 0)


def test_the_program_gets_its_signals(pod: Pod, extended: Extended) -> None:
    """SIGTERM reaches the program, whose exit code is the container's, sshd or not."""
    script = "trap 'exit 7' TERM; touch $HOME/ready; while :; do sleep 0.05; done"
    pod.env["HOME"] = HOME
    with unit(pod, extended, "bash", "-c", script) as running:
        until((pod.path("home") / "ready").exists)
        running.signal(signal.SIGTERM)
        assert running.ends_with() == 7
