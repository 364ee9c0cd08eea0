"""What the way through the tunnel costs beside direct ssh, for each setting of frp: bulk both ways, and a login."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from bench import crowd
from bench.figures import Row, load_note
from bench.process import free_port, running, until_listens
from bench.sshd import sshd
from components import derive
from components.entrance_config import Doors, LimitsSpec, haproxy_cfg
from components.frp_config import PKI_DIR, frps_toml
from components.tunnel_door import TunnelDoors, door_cfg
from tools import toolchain
from tools.images.build import part_files
from tools.images.recipes import ENTRANCE_ROOT
from tools.shell import ToolError, say
from tools.stack.client import through
from tools.stack.engine import REPOSITORY

MEGABYTES = 200
BULK_GOAL, LOGIN_GOAL = 1 / 0.75, 1.1
"""Of direct ssh's time: what the project asks for."""

PACE = 60
"""Megabytes a second of what is sent no faster: half a gigabit, as clients have it at best. Else processors alone are
compared, two of which do the work of client, tunnel server and node here."""

PACED = f"""{sys.executable} -c '
import sys, time
began, block = time.monotonic(), bytes(100_000)
for sent in range({MEGABYTES * 10}):
    time.sleep(max(0, began + sent / {PACE * 10} - time.monotonic()))
    sys.stdout.buffer.write(block)
'"""

GOALS = {"up": BULK_GOAL, "down": BULK_GOAL, "paced up": BULK_GOAL, "paced down": BULK_GOAL, "login": LOGIN_GOAL}

LOGINS = 5
"""Of each variant in a round: one takes a fifth of a second."""

HOST = "bench.lab.ssh.test"
SERVER = "frps"
TOKEN = "a-token-of-the-bench-alone"  # noqa: S105 - guards a server that lives for the bench, on loopback
LUA = REPOSITORY / "services/entrance/sessions.lua"


@dataclass(frozen=True)
class Variant:
    """One way to the same sshd."""

    name: str
    entrance: bool = True
    door: bool = True
    frp: bool = True
    mux: bool = True
    tls: bool = True
    wire: str = "v2"
    pool: int = 1


class Way(NamedTuple):
    """What leads to sshd: ssh's further words, and the port that it comes to first."""

    words: list[str]
    port: int


DIRECT = Variant("direct", entrance=False, door=False, frp=False)
SHIPPED = Variant("as shipped", mux=False)
VARIANTS = (
    DIRECT,
    SHIPPED,
    Variant("without the entrance", mux=False, entrance=False),
    Variant("without the units' door", mux=False, door=False),
    Variant("tcpMux"),
    Variant("pool of 5", mux=False, pool=5),
    Variant("no pool", mux=False, pool=0),
    Variant("wire v1", mux=False, wire="v1"),
    Variant("no TLS", mux=False, tls=False),
)


def rows(rounds: int) -> Iterator[Row]:
    """Measure every variant in turns, and yield its times as ratios to direct ssh of the same round."""
    with TemporaryDirectory(prefix="gpu-runtime-bench-") as scratch, ExitStack() as stack:
        folder = Path(scratch)
        folder.chmod(0o755)
        port = stack.enter_context(sshd(folder))
        ways = {v: stack.enter_context(_way(folder / v.name.replace(" ", "-"), v, port)) for v in VARIANTS}
        found = [_round(folder, ways, number) for number in range(rounds)]
        shipped = ways[SHIPPED]
        yield from crowd.rows(["ssh", "-F", "none", "-i", str(folder / "client"), *shipped.words], shipped.port, folder)
    loads = load_note([os.getloadavg()[0]])
    for variant in VARIANTS[1:]:
        for figure, goal in GOALS.items():
            ratio = median(said[variant, figure] / said[DIRECT, figure] for said in found)
            seconds = median(said[variant, figure] for said in found)
            shown = f"{ratio:.2f} of direct's time ({seconds:.2f} s)"
            yield Row(f"tunnel, {figure}: {variant.name}", shown, ratio, goal if variant == SHIPPED else None, loads)


def _round(folder: Path, ways: dict[Variant, Way], number: int) -> dict[tuple[Variant, str], float]:
    """Run each variant once; a round's first is another each time."""
    turn = number % len(ways)
    order = [*ways][turn:] + [*ways][:turn]
    found: dict[tuple[Variant, str], float] = {}
    for variant in order:
        ssh = ["ssh", "-F", "none", "-i", str(folder / "client"), *ways[variant].words]
        found[variant, "up"] = _timed(f"head -c {MEGABYTES}M /dev/zero | {{}} 'cat >/dev/null'", ssh)
        found[variant, "down"] = _timed(f"{{}} 'head -c {MEGABYTES}M /dev/zero' >/dev/null", ssh)
        found[variant, "paced up"] = _timed(f"{PACED} | {{}} 'cat >/dev/null'", ssh)
        found[variant, "paced down"] = _timed("{} " + shlex.quote(PACED) + " >/dev/null", ssh)
        found[variant, "login"] = median(_timed("{} true", ssh) for _ in range(LOGINS))
        said = " ".join(f"{figure} {found[variant, figure]:.2f}" for figure in GOALS)
        say(f"tunnel, round {number + 1}, {variant.name}: {said} s")
    return found


def _timed(pipeline: str, ssh: list[str]) -> float:
    quoted = shlex.join(ssh)
    began = time.monotonic()
    done = subprocess.run(["bash", "-c", pipeline.format(quoted)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"{' '.join(ssh)} ended with {done.returncode}: {done.stderr[-300:]}")
    return time.monotonic() - began


@contextmanager
def _way(folder: Path, variant: Variant, sshd: int) -> Iterator[Way]:
    """Make the way of *variant* to *sshd*."""
    options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    options += ["-o", "BatchMode=yes", "-l", "bench"]
    if not variant.frp:
        yield Way([*options, "-p", str(sshd), "127.0.0.1"], sshd)
        return
    folder.mkdir()
    with ExitStack() as stack:
        port = _frp(stack, folder, variant, sshd)
        entrance = _entrance(stack, folder, port) if variant.entrance else port
        proxy = (f"-o{key}={value}" for key, value in through("127.0.0.1", entrance).items())
        words = [*options, *proxy, HOST]
        _until_login(words, folder)
        yield Way(words, entrance)


def _frp(stack: ExitStack, folder: Path, variant: Variant, sshd: int) -> int:
    """Start frps and frpc as *variant* says; give frps' CONNECT port."""
    bind, connect, api = free_port(), free_port(), free_port()
    authority = derive.Authority(TOKEN * 2, 0, "bench")
    cert, key = authority.server(SERVER)
    for name, text in {"tls.crt": cert, "tls.key": key, "ca.crt": authority.certificate, "token": TOKEN}.items():
        (folder / name).write_text(text)
    text = frps_toml("none").partition("[[httpPlugins]]")[0].replace(PKI_DIR, str(folder))
    said: dict[str, Any] = dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)
    said |= {"bindPort": bind, "tcpmuxHTTPConnectPort": connect, "webServer.port": api, "bindAddr": '"127.0.0.1"'}
    said |= {"transport.tcpMux": str(variant.mux).lower(), "transport.tls.force": str(variant.tls).lower()}
    (folder / "frps.toml").write_text("".join(f"{name} = {value}\n" for name, value in said.items()))
    _start(stack, folder, "frps", "frps.toml")
    until_listens(bind, folder / "frps.log")
    door = _door(stack, folder, bind) if variant.door else bind
    (folder / "frpc.json").write_text(_frpc(folder, variant, door, sshd))
    _start(stack, folder, "frpc", "frpc.json")
    return connect


def _start(stack: ExitStack, folder: Path, program: str, config: str) -> None:
    argv = [str(toolchain.ensure(program)[program]), "-c", str(folder / config)]
    stack.enter_context(running(argv, folder / f"{program}.log", {}))


def _frpc(folder: Path, variant: Variant, bind: int, sshd: int) -> str:
    """Give what a unit's client is configured with, changed as *variant* says."""
    sys.path.append(str(REPOSITORY / "services"))
    from tunnel.frpc_config import Admin, frpc_config  # noqa: PLC0415 - no package of this program's own
    from tunnel.wanted import Access, Server, Unit, Wanted  # noqa: PLC0415

    server = Server(SERVER, "127.0.0.1", bind)
    access = Access(SERVER, (folder / "ca.crt").read_text(), TOKEN, "0" * 64)
    wanted = Wanted(Unit("bench", "lab", "bench", HOST), (server,), access)
    said = json.loads(frpc_config(wanted, server, Admin(free_port(), "bench"), folder, sshd))
    said["transport"] |= {"tcpMux": variant.mux, "wireProtocol": variant.wire, "poolCount": variant.pool}
    if not variant.tls:
        said["transport"]["tls"] = {"enable": False}
    return json.dumps(said)


def _entrance(stack: ExitStack, folder: Path, frps: int) -> int:
    """Start the entrance in its image's file system; give its port."""
    port, health = free_port(), free_port()
    doors = Doors(f"127.0.0.1:{port}", f"127.0.0.1:{health}", f"127.0.0.1:{frps}", f"/{LUA.name}")
    _haproxy(stack, folder, "entrance", haproxy_cfg(LimitsSpec(), 1, doors=doors))
    until_listens(port, folder / "entrance.log")
    return port


def _door(stack: ExitStack, folder: Path, frps: int) -> int:
    """Start the units' door before *frps*; give its port."""
    port = free_port()
    doors = TunnelDoors(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}", f"127.0.0.1:{frps}")
    _haproxy(stack, folder, "door", door_cfg(LimitsSpec(), doors))
    until_listens(port, folder / "door.log")
    return port


def _haproxy(stack: ExitStack, folder: Path, name: str, config: str) -> None:
    """Start HAProxy in its image's file system."""
    root = folder.parent / "root"
    if not root.exists():
        root.mkdir()
        archive = part_files(ENTRANCE_ROOT) / "root.tar"
        subprocess.run(["tar", "-C", root, "-xf", archive, "--exclude=./dev/*"], check=True)
        shutil.copy(LUA, root / LUA.name)
    file = f"{folder.name}-{name}.cfg"
    (root / file).write_text(config)
    argv = [shutil.which("chroot") or "chroot", str(root), "/usr/sbin/haproxy", "-db", "-f", f"/{file}"]
    stack.enter_context(running(argv, folder / f"{name}.log"))


def _until_login(words: list[str], folder: Path) -> None:
    end = time.monotonic() + 30
    argv = ["ssh", "-F", "none", "-i", str(folder.parent / "client"), *words, "true"]
    while (done := subprocess.run(argv, capture_output=True, text=True, check=False)).returncode:
        if time.monotonic() > end:
            raise ToolError(f"{folder.name}: no login: {done.stderr[-300:]}{(folder / 'frpc.log').read_text()[-500:]}")
        time.sleep(0.3)
