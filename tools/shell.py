"""How our tools run other programs: never silent for long, never a traceback for a foreseeable failure."""

import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

HEARTBEAT_SECONDS = 5.0
"""The longest silence on a terminal."""

POLL_SECONDS = 0.05
"""Short, so that waiting adds nothing visible to a command of a tenth of a second."""

STOP_SECONDS = 10.0
"""What an interrupted program gets for cleaning up before it is killed."""

INTERRUPTED = 130
"""The exit status of a command ended by Ctrl-C, as shells have it."""


class ToolError(Exception):
    """One sentence for the person at the terminal: what failed and what would be right."""


def cache_dir() -> Path:
    """Where everything lives that can be made again: `$GPU_RUNTIME_CACHE`, else ~/.cache/gpu-runtime."""
    return Path(os.environ.get("GPU_RUNTIME_CACHE") or Path.home() / ".cache" / "gpu-runtime").absolute()


class TerminatedError(KeyboardInterrupt):
    """Somebody sent us SIGTERM: unlike Ctrl-C, which the whole terminal hears, our programs do not know yet."""


def say(message: str) -> None:
    """Print *message* on standard error, at once."""
    print(message, file=sys.stderr, flush=True)


def tail(log: Path, lines: int = 15) -> list[str]:
    """Return the last non-empty *lines* of a log, which may still be written to or be missing."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        return []
    return [line for line in text.splitlines() if line.strip()][-lines:]


def run_logged(
    argv: Sequence[str | Path], *, label: str, log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> int:
    """Run *argv* with its output in *log*, say *label* with the last line every few seconds, return the exit status."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=env, cwd=cwd
        )
    with _stopped_on_error(process):
        return _watch(process, lambda seconds: say(f"{label}: {seconds:.0f} s  {_last(log)}"))


@contextmanager
def locked(path: Path, label: str) -> Iterator[None]:
    """Hold an exclusive lock on *path*; while another process has it, say so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as handle:
        started = said = time.monotonic()
        while not _try_lock(handle.fileno()):
            if time.monotonic() - said >= HEARTBEAT_SECONDS:
                said = time.monotonic()
                say(f"{label}: waiting for another run, {said - started:.0f} s")
            time.sleep(POLL_SECONDS)
        yield


def command(main: Callable[[], int | None]) -> None:
    """Run *main* as a program: a foreseeable failure and Ctrl-C end it with one sentence and an exit status.

    Whoever reads what it prints may stop reading (``| head -1``): then it has done what it should.
    """
    signal.signal(signal.SIGTERM, _end)
    try:
        status = main()
        sys.stdout.flush()
        sys.exit(status)
    except (ToolError, OSError) as error:
        if isinstance(error, BrokenPipeError) and _unread():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still holds
            sys.exit(0)
        say(f"error: {error}")
        sys.exit(1)
    except KeyboardInterrupt:
        say("interrupted; run it again")
        sys.exit(INTERRUPTED)


def _unread() -> bool:
    """Say whether nobody reads standard output any more."""
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in output.poll(0))


def _end(*_: object) -> None:
    """Turn SIGTERM into an orderly way out, so that programs that we started end with us."""
    raise TerminatedError


def _watch(process: subprocess.Popen[bytes], beat: Callable[[float], None]) -> int:
    started = said = time.monotonic()
    while process.poll() is None:
        time.sleep(POLL_SECONDS)
        if time.monotonic() - said >= HEARTBEAT_SECONDS:
            said = time.monotonic()
            beat(said - started)
    return process.returncode


@contextmanager
def _stopped_on_error(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise


def _last(log: Path) -> str:
    return "".join(tail(log, 1)).strip()[:100]


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
