"""Programs that people run in units, as they are published: in a network of their own, behind a door that listens.

They come from `programs.lock`, in an environment beside the toolchain: nothing else needs them.
"""

import hashlib
import os
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from typing_extensions import override

from tests.services.world import Process, wait_for
from tests.spaces import socket_in
from tools.shell import ToolError, cache_dir, locked, run_logged, say, tail
from tools.toolchain import ensure_debian

LOCK = Path(__file__).with_name("programs.lock")

ADDRESS = "10.9.9.9"
"""Where a program's pod would be: who listens on loopback alone is not found there."""

ALONE = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--keep-caps", "--net", "sh", "-euc"]
"""As a unit's container: uid 1000, and a network from which no way leads out."""

INSIDE = f'ip link set lo up; ip address add {ADDRESS}/32 dev lo; cd "$HOME"; exec "$@"'

PATIENCE = 120.0
"""Seconds: the first start compiles some thousand modules, on a machine that has other things to do."""


def cannot() -> str:
    """Say why this machine cannot run a program so; nothing where it can."""
    if os.geteuid():
        return "a network of another namespace is entered as root"
    tried = subprocess.run([*ALONE, "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip() if tried.returncode else ""


def environment() -> Path:
    """Give the environment of what `programs.lock` pins; make it if it is not there. ToolError says why it cannot."""
    key = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = cache_dir() / "programs" / key
    with locked(cache_dir() / "programs.lock", "programs"):
        if not (folder / "whole").exists():
            _make(folder)
    return folder


def _make(folder: Path) -> None:
    say(f"programs: installing {LOCK.name}")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    options = ("--disable-pip-version-check", "--no-input", "--no-compile", "--progress-bar", "off")
    exact = ("--require-hashes", "--only-binary", ":all:", "-r", str(LOCK))
    argv = [sys.executable, "-m", "pip", "--python", str(folder), "install", *options, *exact]
    log = cache_dir() / "log" / "programs.log"
    if run_logged(argv, label="programs: pip", log=log) != 0:
        raise ToolError(f"installing {LOCK.name} failed; the end of {log}:\n" + "\n".join(tail(log)))
    (folder / "whole").touch()


def run(folder: Path, *argv: str) -> None:
    """Run a program to its end, where one of a unit runs whose home is *folder*."""
    subprocess.run([*ALONE, INSIDE, "sh", *argv], env=_env(folder), check=True)


def _env(folder: Path) -> dict[str, str]:
    ensure_debian("iproute2")
    return {"HOME": str(folder), "PATH": f"{environment() / 'bin'}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}


class Program:
    """A program of a unit that serves at *port* of its own address; its home is *folder*."""

    def __init__(self, folder: Path, port: int, *argv: str) -> None:
        self.process = Process([*ALONE, INSIDE, "sh", *argv], folder / "program.log", _env(folder))
        space, home = Path(f"/proc/{self.process.popen.pid}/ns/net"), Path("/proc/self/ns/net").readlink()
        wait_for(lambda: space.readlink() != home, "a network of its own")
        self.door = Door(space, port)

    def serves(self) -> bool:
        """Tell whether it takes connections. AssertionError with its last words where it has ended."""
        assert self.process.popen.poll() is None, "\n".join(tail(self.process.output))
        with suppress(OSError), self.door.through():
            return True
        return False

    def end(self) -> None:
        """Stop it, and with it its children."""
        self.process.end()
        self.door.shutdown()
        self.door.server_close()


class Door(socketserver.ThreadingTCPServer):
    """Hands what comes to a port of loopback on to *target* in the network *space*, and keeps what it was told."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, space: Path, target: int) -> None:
        self.space, self.target, self.heard = space, target, bytearray()
        super().__init__(("127.0.0.1", 0), _Passage)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def through(self) -> socket.socket:
        """Open a connection to the program."""
        opened = socket_in(self.space)
        try:
            opened.connect((ADDRESS, self.target))
        except OSError:
            opened.close()
            raise
        return opened

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of those who leave."""


class _Passage(socketserver.BaseRequestHandler):
    server: Door

    @override
    def handle(self) -> None:
        with self.server.through() as there:
            back = threading.Thread(target=self._back, args=(there,), daemon=True)
            back.start()
            with suppress(OSError):
                while data := self.request.recv(65536):
                    self.server.heard += data
                    there.sendall(data)
                there.shutdown(socket.SHUT_WR)
            back.join()

    def _back(self, there: socket.socket) -> None:
        with suppress(OSError):
            while data := there.recv(65536):
                self.request.sendall(data)
            self.request.shutdown(socket.SHUT_WR)
