import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tools import shell
from tools.shell import ToolError, command, locked, run_logged


def test_a_long_command_is_never_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """While a program runs, its label and last line are said again and again."""
    monkeypatch.setattr(shell, "HEARTBEAT_SECONDS", 0.1)
    script = "import time; print('compiling x', flush=True); time.sleep(1)"

    assert run_logged([sys.executable, "-c", script], label="building", log=tmp_path / "log") == 0
    assert capfd.readouterr().err.count("compiling x") > 1


def test_the_exit_status_and_all_output_are_kept(tmp_path: Path) -> None:
    """What a program printed, on either stream, is in the log, and its status is the caller's."""
    script = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(7)"

    assert run_logged([sys.executable, "-c", script], label="x", log=tmp_path / "log") == 7
    assert (tmp_path / "log").read_text() == "out\nerr\n"


def test_an_interrupted_command_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No program of ours outlives the Ctrl-C that ended us."""
    started: list[subprocess.Popen[bytes]] = []

    def interrupt(process: subprocess.Popen[bytes], _: object) -> int:
        started.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(shell, "_watch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_logged(["sleep", "60"], label="x", log=tmp_path / "log")

    assert started[0].returncode == -15


def test_a_lock_makes_the_second_wait(tmp_path: Path) -> None:
    """Two runs are one after the other."""
    order = []

    def second() -> None:
        with locked(tmp_path / "lock", "second"):
            order.append("second")

    thread = threading.Thread(target=second)
    with locked(tmp_path / "lock", "first"):
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join()

    assert order == ["first", "second"]


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (ToolError("no Go"), 1, "error: no Go"),
        (PermissionError(13, "Permission denied", "/x"), 1, "Permission denied: '/x'"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_failure_is_one_sentence(
    error: BaseException, status: int, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A foreseeable failure shows no traceback."""

    def main() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        command(main)

    assert ended.value.code == status
    said = capfd.readouterr().err
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_who_stops_is_no_failure(lines: int) -> None:
    """`make status | head -1` ends quietly, whether the rest was written already or not."""
    script = f"from tools.shell import command\ncommand(lambda: print('x\\n' * {lines}, end=''))"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


def test_another_broken_pipe_is_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    """What breaks elsewhere is told, while somebody reads."""

    def main() -> None:
        raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(SystemExit) as ended:
        command(main)
    assert ended.value.code == 1
    assert "Broken pipe" in capfd.readouterr().err
