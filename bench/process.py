"""Programs that a measurement starts on this machine."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.shell import ToolError


@contextmanager
def running(argv: list[str], log: Path, env: dict[str, str] | None = None) -> Iterator[None]:
    """Run *argv* until the block ends; what it says is in *log*."""
    with log.open("w") as out, subprocess.Popen(argv, stdout=out, stderr=out, env=env) as process:
        try:
            yield
        finally:
            process.terminate()


def free_port() -> int:
    """Give a port of loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until_listens(port: int, log: Path) -> None:
    """Wait until somebody listens on *port*; raise ToolError with the end of *log* after 20 s."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise ToolError(f"nothing listens on {port}: {log.read_text()[-500:]}")
