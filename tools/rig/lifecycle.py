"""Start a rig's namespaces and first process; end everything that a rig has on the host."""

import os
import select
import shlex
import subprocess
import sys
from pathlib import Path
from typing import IO

from tools.rig import cgroups, node, processes
from tools.rig.errors import RigError
from tools.rig.network import Network
from tools.rig.state import Folder
from tools.rig.supervisor import GO, TAKING_OVER

SUPERVISOR = Path(__file__).with_name("supervisor.py")
NAMESPACES = ("--net", "--mount", "--cgroup", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc")
"""All but user: the kubelet needs real root. None is pinned by a file, so all of them go when their processes go."""

HANDSHAKE_SECONDS = 20
"""Namespaces take milliseconds; a machine that swaps needs longer."""


def start(folder: Folder, link: str, net: Network, groups: list[Path], *, v2: bool) -> int:
    """Start the rig's PID 1 and return its number on the host.

    It goes on only after the link was made, so that a start cut short here leaves nothing running. Raises RigError.
    """
    with (folder.logs / "rig.log").open("ab") as log:
        process = subprocess.Popen(
            _command(folder, groups),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={"PATH": _path()},
            cwd="/",
            text=True,
        )
    with process:
        if _first_line(process.stdout) != TAKING_OVER:
            raise RigError(f"the rig's namespaces could not be made: {_last_words(folder)}")
        pid = processes.first_process(groups)
        if pid is None or process.stdin is None:
            raise RigError(f"the rig's first process ended at once: {_last_words(folder)}")
        if v2:
            cgroups.settle(groups)
        node.connect(link, net, pid)
        process.stdin.write(GO)
    return pid


def end(link: str, groups: list[Path]) -> None:
    """End every process of the rig and remove what it has on the host, its files excepted; fit for any half state."""
    processes.end_all(groups)
    node.disconnect(link)
    cgroups.remove(groups)


def leftovers(link: str, groups: list[Path], folder: Folder) -> list[str]:
    """Return in words whatever of the rig still exists on the host."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [
        *(f"process {pid}" for pid in cgroups.pids(groups)),
        *(f"cgroup {path}" for path in groups if path.exists()),
        *([f"network device {link}"] if node.link_exists(link) else []),
        *(f"mount {mount}" for mount in mounts if Path(mount).is_relative_to(folder.path)),
        *([f"folder {folder.path}"] if folder.path.exists() else []),
    ]


def enter(pid: int, *argv: str) -> list[str]:
    """Return the command that runs *argv* in all namespaces of the rig whose first process is *pid*."""
    return ["nsenter", f"--target={pid}", "--net", "--mount", "--cgroup", "--pid", "--ipc", "--uts", "--", *argv]


def _command(folder: Folder, groups: list[Path]) -> list[str]:
    """Return: join the groups, detach from terminal and parent, make the namespaces, run the supervisor in them."""
    joins = "".join(f"echo 0 > {shlex.quote(str(path / 'cgroup.procs'))} || exit 1\n" for path in groups)
    supervisor = [sys.executable, "-I", "-B", str(SUPERVISOR), str(folder.path)]
    return ["sh", "-c", f'{joins}exec "$@"', "sh", "setsid", "--fork", "unshare", *NAMESPACES, *supervisor]


def _first_line(stream: IO[str] | None) -> str:
    if stream is None or not select.select([stream], [], [], HANDSHAKE_SECONDS)[0]:
        return ""
    return stream.readline()


def _last_words(folder: Folder) -> str:
    return (folder.logs / "rig.log").read_text(errors="replace").strip()[-500:] or "without a word"


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin:/sbin:/bin"
