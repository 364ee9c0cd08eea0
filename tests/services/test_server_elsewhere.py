"""A tunnel server that somebody else runs: what a stack writes for its units logs in there, with and without a gate."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pulumi
import pytest

from components import derive
from stacks.keys import Keys
from stacks.resolve import Stack
from tests.services.world import Echo, Process, Tunnel, free_port, holds, listens, wait_for
from tests.stack_files import SECRET
from tests.stacks.test_server import TOKEN, stack
from tools.ssh_connect import RefusedError, connect
from tools.toolchain import ensure

BANNER = b"SSH-2.0-echo\r\n"
NOTEBOOK = "notebook.lab-a"


@dataclass
class Elsewhere:
    """An frps as its own operator configures it: TLS of another authority, a token, and no gate."""

    folder: Path
    mux: bool = True
    port: int = field(default_factory=free_port)
    connect_port: int = field(default_factory=free_port)
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        cert, key = derive.Authority(SECRET, 0, "elsewhere").server("frps.example.com")
        for name, text in {"tls.crt": cert, "tls.key": key, "token": TOKEN}.items():
            (self.folder / name).write_text(text)
        said = f"""\
bindAddr = "127.0.0.1"
bindPort = {self.port}
tcpmuxHTTPConnectPort = {self.connect_port}
auth.tokenSource.type = "file"
auth.tokenSource.file.path = "{self.folder}/token"
auth.additionalScopes = ["HeartBeats", "NewWorkConns"]
transport.tcpMux = {str(self.mux).lower()}
transport.tls.force = true
transport.tls.certFile = "{self.folder}/tls.crt"
transport.tls.keyFile = "{self.folder}/tls.key"
"""
        (self.folder / "frps.toml").write_text(said)
        argv = [str(ensure("frps")["frps"]), "-c", str(self.folder / "frps.toml")]
        self.process = Process(argv, self.folder / "frps.log")
        wait_for(lambda: listens(self.port) and listens(self.connect_port), "frps listens")

    def greeting(self, host: str) -> bytes:
        """Return the first line that *host* says; nothing where it cannot be reached."""
        with contextlib.suppress(RefusedError, OSError):
            tunnel = connect(("127.0.0.1", self.connect_port), host, "22")
            tunnel.settimeout(5)
            with tunnel, tunnel.makefile("rb") as lines:
                return lines.readline()
        return b""


def files(made: Stack, alias: str, at: Elsewhere) -> dict[str, str]:
    """Give what the stack puts beside the unit's tunnel client, with the server where it is here."""
    keys, unit = Keys(made), made.units[alias]

    async def opened() -> dict[str, str]:
        secrets = keys.unit(unit, keys.host_key(unit)).tunnel
        return {n: str(await v.future()) if isinstance(v, pulumi.Output) else str(v) for n, v in secrets.items()}

    found = asyncio.run(opened())
    said = json.loads(found["tunnel.json"])
    said["servers"] = [{**one, "address": "127.0.0.1", "port": at.port} for one in said["servers"]]
    return {**found, "tunnel.json": json.dumps(said)}


Start = Callable[[dict[str, str]], Tunnel]


@pytest.fixture
def units(tmp_path: Path, sshd: Echo) -> Iterator[Start]:
    """Start tunnel clients with the files of a mounted Secret."""
    with ExitStack() as ends:

        def begin(content: dict[str, str]) -> Tunnel:
            folder = tmp_path / f"unit-{time.monotonic_ns()}"
            (folder / "mount").mkdir(parents=True)
            for name, text in content.items():
                (folder / "mount" / name).write_text(text)
            tunnel = Tunnel(folder, sshd)
            ends.callback(tunnel.process.end)
            return tunnel

        yield begin


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Elsewhere]:
    """Start a server elsewhere."""
    made = Elsewhere(tmp_path)
    yield made
    made.process.end()


def test_a_unit_is_reached_through_it(server: Elsewhere, units: Start) -> None:
    """With the server's own authority, name and token, what the stack writes is all that a login takes."""
    made = stack("10.9.9.9")
    units(files(made, NOTEBOOK, server))

    wait_for(lambda: server.greeting(made.units[NOTEBOOK].host) == BANNER, "the unit answers through it")


def test_both_sides_agree_on_the_multiplexing(tmp_path: Path, units: Start) -> None:
    """A server without tcpMux is reached by a stack that says so, and by no other."""
    (tmp_path / "plain").mkdir()
    server = Elsewhere(tmp_path / "plain", mux=False)
    try:
        made = stack("10.9.9.9")
        content, host = files(made, NOTEBOOK, server), made.units[NOTEBOOK].host
        wrong = units(content)
        wait_for(lambda: wrong.process.events("started"), "a try")
        holds(lambda: server.greeting(host) == b"", "no login", 3)
        wrong.process.end()
        units({**content, "tunnel.json": json.dumps({**json.loads(content["tunnel.json"]), "tcpMux": False})})
        wait_for(lambda: server.greeting(host) == BANNER, "the unit answers through it")
    finally:
        server.process.end()


def test_without_a_gate_a_token_takes_any_host(server: Elsewhere, units: Start) -> None:
    """What the preview warns of is so: one unit's files, with another's host in them, announce that host."""
    made = stack("10.9.9.9")
    content = files(made, NOTEBOOK, server)
    stolen = "somebody.lab-b.ssh.example.com"
    units({**content, "tunnel.json": json.dumps({**json.loads(content["tunnel.json"]), "host": stolen})})

    wait_for(lambda: server.greeting(stolen) == BANNER, "the host is taken")
