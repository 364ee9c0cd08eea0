"""Terminals and environments: what a person at a keyboard notices."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.images.containers import PATIENCE, Client, Pod, Running, until
from tests.images.test_ssh import TOOLS, environment

LARGE = "0123456789" * 10_000
"""100 KB: below what Linux lets one variable have (128 KiB)."""

ODD = {
    "LINES_OF": "one\ntwo\n\n",
    "QUOTES": """a "b" c\\d\\\\ 'q' #x $HOME %h `date`  two""",
    "EMPTY": "",
    "UNICODE": "λ 日本 \u00a0 \U0001f680",
    "CONTROL": "\x01\x1b[31m\t",
    "LARGE": LARGE,
    "NVIDIA_VISIBLE_DEVICES": "GPU-8f2c,GPU-77aa",
    "CUDA_HOME": "/usr/local/cuda",
    "LD_LIBRARY_PATH": "/usr/local/cuda/lib64:/opt/lib",
}


JOB = """bash -c 'trap "echo ba""ck" CONT; echo go""ing; while sleep 0.1; do :; done'\n"""
"""Says that it runs, and that it runs again, in words that the command itself does not have."""


class Screen:
    """A session at a terminal of its own."""

    def __init__(self, side: int) -> None:
        self.side, self.shown = side, ""

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.side, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        """Change the window."""
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def shows(self, pattern: str) -> "re.Match[str]":
        """Wait until *pattern* is shown, and forget what came before its end."""

        def look() -> "re.Match[str] | None":
            with suppress(OSError):  # nothing new, or the session is over
                self.shown += os.read(self.side, 65536).decode("utf-8", "replace")
            return re.search(pattern, self.shown)

        try:
            found = until(look)
        except AssertionError:
            pytest.fail(f"{pattern!r} is not shown; this is: {self.shown!r}")
        self.shown = self.shown[found.end() :]
        return found


@contextmanager
def terminal(client: Client, *command: str) -> Iterator[tuple[Screen, subprocess.Popen[bytes]]]:
    """Log in from a terminal."""
    side, other = pty.openpty()
    os.set_blocking(side, False)
    argv = client.running.argv("setsid", "--ctty", "ssh", *client.options, "-tt", "-p", "2222", client.there, *command)
    with subprocess.Popen(argv, stdin=other, stdout=other, stderr=other) as process:
        os.close(other)
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        try:
            yield Screen(side), process
        finally:
            process.kill()
            os.close(side)


@pytest.fixture
def running(workspace: Pod) -> Iterator[Running]:
    """A unit on a Debian, with variables of every kind."""
    workspace.env |= ODD
    with workspace.main("sleep", "600") as running:
        yield running


def exact(session: dict[str, str]) -> None:
    """See that every odd variable arrived as it was given."""
    assert {name: value for name, value in ODD.items() if session.get(name) != value} == {}


def test_the_environment_arrives_exactly(workspace: Pod, running: Running, keys: Path) -> None:
    """Line breaks, quotes, backslashes, unicode, empty and large values are the same in every kind of session."""
    client = Client(keys, running)
    exact(environment(client.ssh("cat /proc/self/environ").stdout))
    login = environment(client.ssh("bash -lc 'exec cat /proc/self/environ'").stdout)
    exact(login)
    assert login["PATH"] == workspace.env["PATH"] + TOOLS
    with terminal(client, "cat /proc/self/environ > ~/terminal") as (_, process):
        assert process.wait(PATIENCE) == 0
    exact(environment((workspace.path("home") / "terminal").read_text()))


def test_a_login_shell_at_a_terminal(workspace: Pod, running: Running, keys: Path) -> None:
    """The shell that a plain `ssh unit` gives has the program's variables and its PATH, and says no error."""
    with terminal(Client(keys, running)) as (screen, process):
        screen.type("cat /proc/$$/environ > ~/login; echo $PATH > ~/path; exit 3\n")
        assert process.wait(PATIENCE) == 3
    exact(environment((workspace.path("home") / "login").read_text()))
    assert (workspace.path("home") / "path").read_text().strip() == workspace.env["PATH"] + TOOLS


def test_the_window_and_jobs(running: Running, keys: Path) -> None:
    """A terminal follows its window, and Ctrl-Z, fg and Ctrl-C work as on any machine."""
    with terminal(Client(keys, running), "bash --norc") as (screen, process):
        screen.type("stty -echo; trap 'stty size' WINCH; echo rea'dy'\n")
        screen.shows("ready")
        screen.resize(50, 132)
        screen.type("\n")
        screen.shows("50 132")
        screen.type(JOB)
        screen.shows("going")
        screen.type("\x1a")
        screen.shows("Stopped")
        screen.type("fg\n")
        screen.shows("back")
        screen.type("\x03")
        screen.shows(r"\$ ")
        screen.type("jobs; echo code $?; exit 4\n")
        screen.shows("code 0")
        assert process.wait(PATIENCE) == 4


def test_a_lost_client_ends_what_its_terminal_ran(workspace: Pod, running: Running, keys: Path) -> None:
    """What runs at a terminal gets SIGHUP when the connection goes, and so ends unless it says otherwise."""
    script = "trap 'touch ~/hup; exit' HUP; touch ~/on; while :; do sleep 0.1; done"
    with terminal(Client(keys, running), script) as (_, process):
        until((workspace.path("home") / "on").exists)
        process.kill()
    until((workspace.path("home") / "hup").exists)


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 42", 42), ("no-such-program", 127)])
def test_exit_codes(running: Running, keys: Path, command: str, code: int) -> None:
    """Ssh ends with what the command ended with."""
    assert Client(keys, running).ssh(command).returncode == code


def test_a_command_that_a_signal_ended(running: Running, keys: Path) -> None:
    """A signal is no exit code: ssh says 255, as it does of any session that did not end by itself."""
    assert Client(keys, running).ssh("kill -TERM $$").returncode == 255
