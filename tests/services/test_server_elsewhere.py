"""A tunnel server that somebody else runs: what a stack writes for its units logs in there, with and without a gate."""

import asyncio
import contextlib
import json
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pulumi
import pytest
from gate.claim import Claim

from components import derive
from stacks.keys import Keys
from stacks.resolve import Stack
from tests.services.api import Store
from tests.services.world import (
    GATE_KEY,
    Authority,
    Echo,
    Frps,
    Gate,
    Process,
    Tunnel,
    add_namespace,
    add_unit,
    free_port,
    holds,
    listens,
    remove_unit,
    wait_for,
)
from tests.stack_files import SECRET
from tests.stacks.test_server import TOKEN, stack
from tools.ssh_connect import RefusedError, connect
from tools.stack.engine import REPOSITORY
from tools.toolchain import ensure

BANNER = b"SSH-2.0-echo\r\n"
NOTEBOOK = "notebook.lab-a"
STOLEN = "somebody.lab-b.ssh.example.com"


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
        self.process.until(lambda: listens(self.port) and listens(self.connect_port), "frps listens")

    def greeting(self, host: str) -> bytes:
        """Return the first line that *host* says; nothing where it cannot be reached."""
        with contextlib.suppress(RefusedError, OSError):
            tunnel = connect(("127.0.0.1", self.connect_port), host, "22")
            tunnel.settimeout(5)
            with tunnel, tunnel.makefile("rb") as lines:
                return lines.readline()
        return b""


def files(made: Stack, alias: str, at: "Elsewhere | Frps") -> dict[str, str]:
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
    units({**content, "tunnel.json": json.dumps({**json.loads(content["tunnel.json"]), "host": STOLEN})})

    wait_for(lambda: server.greeting(STOLEN) == BANNER, "the host is taken")


def operators_key(folder: Path, owner: str) -> str:
    """Derive what a gate's operator gives to stack *owner*, with the command of docs/operations.md."""
    page = (REPOSITORY / "docs/operations.md").read_text()
    command = textwrap.dedent(page[page.index("   python3 -c 'import hmac") :].partition("\n   ```")[0])
    (folder / "key").write_text(f"{GATE_KEY.hex()}\n")
    argv = ["sh", "-c", command.replace("/prod", f"/{owner}")]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def gated(tmp_path: Path, authority: Authority) -> Iterator[Frps]:
    """Start an frps whose operator runs our gate, with a key of its own, against the cluster of the units."""
    cluster = Store()
    for unit in units_of(stack("10.9.9.9")):
        add_namespace(cluster, unit.namespace, unit.owner)
        add_unit(cluster, unit)
    gate = Gate(tmp_path, authority, ("prod",), cluster)
    frps = Frps(tmp_path, authority, gate)
    frps.process.end()
    frps.set_token(TOKEN)
    frps.start()
    yield frps
    frps.process.end()
    gate.end()


def units_of(made: Stack) -> list[Claim]:
    """Give who the units of a stack say that they are."""
    return [Claim(one.owner, one.namespace, one.name, one.host) for one in made.units.values()]


def test_with_our_gate_a_unit_takes_its_own_host_alone(
    tmp_path: Path, gated: Frps, authority: Authority, units: Start
) -> None:
    """Its operator's key, derived for the stack, opens each unit's own host, for as long as the unit is there."""
    keys = {"key": operators_key(tmp_path, "prod"), "token": TOKEN}
    made = stack("10.9.9.9", keys, name="frps", ca=authority.ca.read_text(), tcpMux=False)
    content, unit = files(made, NOTEBOOK, gated), made.units[NOTEBOOK]
    stolen = unit.host.replace("notebook", "somebody")
    thief = units({**content, "tunnel.json": json.dumps({**json.loads(content["tunnel.json"]), "host": stolen})})
    wait_for(lambda: "the capability is not that of unit" in thief.process.text, "the gate to refuse another's host")
    thief.process.end()

    units(content)
    wait_for(lambda: gated.greeting(unit.host) == BANNER, "the unit answers through it")
    assert gated.greeting(stolen) == b""
    (said,) = [one for one in units_of(made) if one.host == unit.host]
    remove_unit(gated.gate.cluster, said)
    wait_for(lambda: gated.greeting(unit.host) == b"", "a unit that is gone takes no new session")


def test_with_our_gate_no_other_key_opens_anything(
    tmp_path: Path, gated: Frps, authority: Authority, units: Start
) -> None:
    """What the operator derived for another stack signs for none of this one's units."""
    keys = {"key": operators_key(tmp_path, "lab"), "token": TOKEN}
    made = stack("10.9.9.9", keys, name="frps", ca=authority.ca.read_text(), tcpMux=False)
    tunnel = units(files(made, NOTEBOOK, gated))

    wait_for(lambda: "the capability is not that of unit 'notebook'" in tunnel.process.text, "the gate to refuse it")
    assert gated.greeting(made.units[NOTEBOOK].host) == b""
