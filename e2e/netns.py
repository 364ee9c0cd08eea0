"""Pods on a rig as the host sees them: their processes, and their network namespaces to connect and listen in."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

from policy.ends import Address
from tools.rig.outside import ANSWER

PROBER = Path(__file__).with_name("prober.py")
PROBER_SECONDS = 240
"""Far above what hundreds of refusals take; everything silent, which is the worst, takes a minute."""

Try = tuple[str, int, str]
"""Address, port, protocol."""

NO_FORK = "import os\nos.fork = lambda: 0\n"
"""Before the text of answer.py: it then stays the process that we began, and can end."""

LISTENING = {"tcp": "0A", "udp": "07"}
"""State of a listening socket in /proc/net."""

ESTABLISHED = "01"
"""State there of a TCP connection that is open."""


def pid_of(uid: str) -> int:
    """Give the number, on the host, of the oldest process of the pod *uid*, which lives as long as the pod.

    All of them are in its network namespace, but the next one may be gone in a moment.
    """
    found: dict[int, int] = {}
    for folder in processes_of(uid):
        with suppress(OSError):  # ended meanwhile
            found[int(folder.name)] = _began(folder)
    assert found, f"pod {uid} has no process on this host"
    return min(found, key=lambda pid: found[pid])


def pid_in(space: int) -> int:
    """Give a process of the network namespace with that number, as the host counts both."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile
            if (folder / "ns/net").stat().st_ino == space:
                return int(folder.name)
    raise AssertionError(f"no process of this host is in the network namespace {space}")


def processes_of(uid: str) -> Iterator[Path]:
    """Give the folders in /proc of the processes of the pod *uid*."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile
            if f"pod{uid}" in (folder / "cgroup").read_text():
                yield folder


def kill(uid: str, program: str) -> int:
    """Kill every process of the pod *uid* that has the name of *program* in its command line; give how many."""
    killed = 0
    for pid, words in commands(uid).items():
        if program in words:
            with suppress(ProcessLookupError):  # ended meanwhile
                os.kill(pid, signal.SIGKILL)
                killed += 1
    return killed


def commands(uid: str) -> dict[int, frozenset[str]]:
    """Give by number the words of each process of the pod *uid*, of a path the last part."""
    found: dict[int, frozenset[str]] = {}
    for folder in processes_of(uid):
        with suppress(OSError):  # ended meanwhile
            words = (folder / "cmdline").read_text().split("\0")
            found[int(folder.name)] = frozenset(Path(word).name for word in words)
    return found


def connected(uid: str, port: int) -> bool:
    """Say whether somebody has a connection to *port* of the pod *uid*."""
    pid = pid_of(uid)
    found = (*_sockets(pid, "tcp"), *_sockets(pid, "tcp6"))
    return any(number == port and state == ESTABLISHED for _, number, state in found)


def _began(process: Path) -> int:
    """Give when a process began, in the kernel's own count: field 22 of proc_pid_stat(5)."""
    return int((process / "stat").read_text().rpartition(")")[2].split()[19])


def space_of(pid: int) -> Path:
    """Give the network namespace of a process."""
    return Path(f"/proc/{pid}/ns/net")


def _enter(space: Path) -> list[str]:
    return ["nsenter", f"--net={space}", os.path.realpath(sys.executable), "-ISBc"]


def start(space: Path, tries: Sequence[Try], own: Mapping[int, Address] | None = None) -> "subprocess.Popen[str]":
    """Begin all *tries* at once from the namespace *space*, from the addresses *own* where that is said."""
    said = {"from": {str(version): str(address) for version, address in (own or {}).items()}, "tries": tries}
    process = subprocess.Popen(
        [*_enter(space), PROBER.read_text()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    if process.stdin:
        process.stdin.write(json.dumps(said))
        process.stdin.close()
        process.stdin = None  # communicate() would close it again
    return process


def finish(process: "subprocess.Popen[str]") -> list[bool]:
    """Wait for what `start` began; give what opened."""
    said, _ = process.communicate(timeout=PROBER_SECONDS)
    assert process.returncode == 0, f"the prober ended with {process.returncode}"
    found: list[bool] = json.loads(said)
    return found


@contextmanager
def listening(wanted: Mapping[int, Iterable[Try]]) -> Iterator[None]:
    """Listen in the namespace of each process, by number, wherever nobody listens yet; every answer is a word."""
    with ExitStack() as stack:
        for pid, tries in wanted.items():
            free = [one for one in dict.fromkeys(tries) if not _taken(pid, one)]
            for address in dict.fromkeys(address for address, *_ in free):
                ports = {kind: [str(p) for a, p, k in free if (a, k) == (address, kind)] for kind in ("TCP", "UDP")}
                stack.enter_context(_listener(pid, address, ports))
        yield


@contextmanager
def _listener(pid: int, address: str, ports: Mapping[str, list[str]]) -> Iterator[None]:
    words = [address, "tcp", *ports["TCP"], "udp", *ports["UDP"]]
    argv = [*_enter(space_of(pid)), NO_FORK + ANSWER.read_text(), *words]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.read()  # it closes its output once all doors are open
            assert process.poll() is None, f"nothing listens at {address} {dict(ports)}"
            yield
        finally:
            process.kill()


def _taken(pid: int, one: Try) -> bool:
    """Say whether somebody in the namespace listens at that address and port."""
    address, port, protocol = one
    kind, wanted = protocol.lower(), ip_address(address)
    lines = [*_sockets(pid, kind), *_sockets(pid, f"{kind}6")]
    here = [local for local, number, state in lines if number == port and state == LISTENING[kind]]
    wild = any(local.version == 6 and local.is_unspecified for local in here)
    return wild or wanted in here or any(local.version == wanted.version and local.is_unspecified for local in here)


def _sockets(pid: int, kind: str) -> Iterator[tuple[Address, int, str]]:
    path = Path(f"/proc/{pid}/net/{kind}")
    for line in path.read_text().splitlines()[1:] if path.exists() else ():
        _, local, _, state, *_ = line.split()
        host, _, port = local.partition(":")
        words = [bytes.fromhex(host[i : i + 8])[::-1] for i in range(0, len(host), 8)]  # in the machine's byte order
        yield ip_address(b"".join(words)), int(port, 16), state
