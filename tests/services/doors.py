"""The entrance of a tunnel server as its tests meet it: the image's own HAProxy and companion, on this machine."""

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tunnel.wanted import Server

from components.entrance_config import Doors, LimitsSpec, haproxy_cfg
from components.tunnel_door import TunnelDoors, door_cfg
from tests.services.world import ROOT, Frps, Process, free_port, python

LUA = ROOT / "services/entrance/sessions.lua"


@dataclass
class Entrance:
    """A running HAProxy before *frps*, in the file system of its image (*root*)."""

    root: Path
    frps: Frps
    limits: LimitsSpec = field(default_factory=LimitsSpec)
    drain: int = 60
    port: int = field(default_factory=free_port)
    health: int = field(default_factory=free_port)
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        folder = self.root / f"entrance-{self.port}"
        folder.mkdir()
        shutil.copy(LUA, folder / "sessions.lua")
        inside = f"/{folder.name}"
        doors = Doors(
            f"127.0.0.1:{self.port}",
            f"127.0.0.1:{self.health}",
            f"127.0.0.1:{self.frps.connect_port}",
            f"{inside}/sessions.lua",
        )
        (folder / "haproxy.cfg").write_text(haproxy_cfg(self.limits, self.drain, doors=doors))
        self.process = haproxy(self.root, f"{inside}/haproxy.cfg", self.frps.folder / f"entrance-{self.port}.log")
        self.process.until(self.healthy, "the entrance runs")

    def healthy(self) -> bool:
        """Tell whether it says that it runs."""
        return runs(self.health)

    def ask(self, said: bytes, *, source: str = "127.0.0.1", until: bytes = b"") -> bytes:
        """Send *said* from *source*; return what comes back, until it ends with *until*, is closed, or then silent."""
        with self.connect(source) as connection:
            connection.settimeout(20)
            got = b""
            with contextlib.suppress(OSError):
                connection.sendall(said)
                while data := connection.recv(65536):
                    got += data
                    if until and got.endswith(until):
                        break
                    connection.settimeout(20 if until else 2)
            return got

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """Open a connection from the address *source*, or one that was closed before anybody looked."""
        connection = socket.socket()
        connection.settimeout(10)
        connection.bind((source, 0))
        with contextlib.suppress(ConnectionResetError):
            connection.connect(("127.0.0.1", self.port))
        return connection

    def open(self, host: str, source: str = "127.0.0.1", version: str = "1.1") -> tuple[bytes, socket.socket]:
        """CONNECT to *host*; return the status line and the open connection."""
        connection = self.connect(source)
        head = b""
        with contextlib.suppress(OSError):
            connection.sendall(f"CONNECT {host}:22 HTTP/{version}\r\nHost: {host}:22\r\n\r\n".encode())
            while not head.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
                head += byte
        return head.split(b"\r\n")[0], connection

    def status(self, host: str, source: str = "127.0.0.1") -> bytes:
        """Return the status line that a CONNECT to *host* gets; nothing where it is closed unread."""
        line, connection = self.open(host, source)
        connection.close()
        return line

    @property
    def memory(self) -> int:
        """Bytes that it has in memory."""
        return memory_of(self.process)


@dataclass
class TunnelDoor:
    """A running HAProxy before the port of *frps* that units come to, in the file system of its image (*root*)."""

    root: Path
    frps: Frps
    limits: LimitsSpec = field(default_factory=LimitsSpec)
    port: int = field(default_factory=free_port)
    health: int = field(default_factory=free_port)
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        doors = TunnelDoors(f"127.0.0.1:{self.port}", f"127.0.0.1:{self.health}", f"127.0.0.1:{self.frps.port}")
        config = self.root / f"door-{self.port}.cfg"
        config.write_text(door_cfg(self.limits, doors))
        self.process = haproxy(self.root, f"/{config.name}", self.frps.folder / f"door-{self.port}.log")
        self.process.until(self.healthy, "the door runs")

    @property
    def server(self) -> Server:
        """Say where units reach frps, as their list does."""
        return Server(self.frps.name, "127.0.0.1", self.port)

    def healthy(self) -> bool:
        """Tell whether it says that it runs."""
        return runs(self.health)

    def reached(self) -> int:
        """Count the connections that frps has taken and not ended."""
        there, established = f":{self.frps.port:04X}", "01"
        lines = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
        return sum(line[1].endswith(there) and line[3] == established for line in lines)


def haproxy(root: Path, config: str, log: Path) -> Process:
    """Start HAProxy in the file system of its image, where *config* is a file."""
    chroot = shutil.which("chroot") or "/usr/sbin/chroot"
    return Process([chroot, str(root), "/usr/sbin/haproxy", "-db", "-f", config], log)


def runs(health: int) -> bool:
    """Tell whether an HAProxy says at the port *health* that it runs."""
    with contextlib.suppress(OSError):
        return get(health, "/healthz")[0] == http.HTTPStatus.OK
    return False


def memory_of(process: Process) -> int:
    """Count the bytes that a process has in memory."""
    (line,) = (at for at in Path(f"/proc/{process.popen.pid}/status").read_text().splitlines() if "VmRSS" in at)
    return int(line.split()[1]) * 1024


@dataclass
class Companion:
    """A running companion of *frps*, which asks those that *list_* names."""

    frps: Frps
    list_: Path
    port: int = field(default_factory=free_port)
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        said = [f"--name={self.frps.name}", f"--servers={self.list_}", f"--frps=127.0.0.1:{self.frps.api_port}"]
        listen = f"--listen=127.0.0.1:{self.port}"
        self.process = python("entrance", *said, listen, output=self.frps.folder / f"companion-{self.port}.log")
        self.process.until(self.answers, "the companion answers")

    def answers(self) -> bool:
        """Tell whether it answers at all."""
        with contextlib.suppress(OSError):
            return bool(get(self.port, "/ready"))
        return False

    @property
    def ready(self) -> bool:
        """Tell what the kubelet is told."""
        return get(self.port, "/ready")[0] == http.HTTPStatus.OK

    @property
    def hosts(self) -> dict[str, Any]:
        """Return what peers are told."""
        said: dict[str, Any] = json.loads(get(self.port, "/hosts")[1])
        return said


def list_servers(file: Path, ports: dict[str, int]) -> None:
    """Write the list of companions: names and ports."""
    file.write_text(json.dumps([{"name": name, "host": "127.0.0.1", "port": port} for name, port in ports.items()]))


def get(port: int, path: str) -> tuple[int, bytes]:
    """Ask an HTTP server on loopback."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()


@contextlib.contextmanager
def thrown(entrance: Entrance | TunnelDoor, count: int, said: bytes, sources: int) -> Iterator[list[socket.socket]]:
    """Hold *count* connections from *sources* addresses, each of which has said *said*."""
    held: list[socket.socket] = []
    try:
        for number in range(count):
            connection = socket.socket()
            held.append(connection)
            connection.bind((f"127.1.{number % sources // 250}.{number % sources % 250 + 1}", 0))
            connection.settimeout(0)
            connection.connect_ex(("127.0.0.1", entrance.port))
            if number % 200 == 199:
                time.sleep(0.02)  # one process plays them all; the entrance's queue is not what is tried
        time.sleep(0.5)
        for connection in held:
            with contextlib.suppress(OSError):
                connection.send(said)
        yield held
    finally:
        for connection in held:
            connection.close()


def unpack_root(archive: Path, folder: Path) -> Path:
    """Unpack the root file system of the image into *folder*."""
    subprocess.run(["tar", "-C", folder, "-xf", archive, "--exclude=./dev/*"], check=True)
    return folder
