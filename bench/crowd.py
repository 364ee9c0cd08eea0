"""Many logins at once to one unit: from several addresses, which all get in, and from one, which gets its share."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from bench.figures import Row
from components.entrance_config import LimitsSpec
from tools.ssh_connect import HAND_OVER
from tools.stack.client import CONNECT

LOGINS = 100
SOURCES = 4
"""Each then opens 25, as Ansible's forks do."""

FROM = """\
import functools, runpy, socket, sys
address, sys.argv = sys.argv[1], sys.argv[2:]
socket.create_connection = functools.partial(socket.create_connection, source_address=(address, 0))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A client's ProxyCommand, from an address of loopback that is said."""


def rows(ssh: Sequence[str], entrance: int, folder: Path) -> Iterator[Row]:
    """Log in LOGINS times at once by *ssh*, whose way is the entrance at that port; the figure is how many failed.

    From one address some must fail: what is above its share is told 429, so that it shuts nobody else out.
    """
    (folder / "from.py").write_text(FROM)
    share = LimitsSpec().of_pair
    expected = {SOURCES: (0.0, ""), 1: (None, f"by design: {share} at once, and 429 above")}
    for sources, (goal, note) in expected.items():
        failed, shown = _logins(ssh, [_proxy(folder, f"127.2.0.{number + 1}", entrance) for number in range(sources)])
        what = f"{LOGINS} logins at once to one unit, from {sources} address" + "es" * (sources > 1)
        yield Row(what, shown, float(failed), goal, "; ".join(filter(None, (note, _load()))))


def _proxy(folder: Path, address: str, entrance: int) -> str:
    """Give ssh's word; of several, ssh takes the first."""
    said = f'"{sys.executable}" "{folder}/from.py" {address} "{CONNECT}" {HAND_OVER} 127.0.0.1:{entrance} %h %p'
    return f"-oProxyCommand={said}"


def _logins(ssh: Sequence[str], proxies: Sequence[str]) -> tuple[int, str]:
    """Give how many failed, and in words how many of them by a limit, and how long the others took."""
    with ThreadPoolExecutor(LOGINS) as pool:
        argvs = [[ssh[0], proxies[number % len(proxies)], *ssh[1:], "true"] for number in range(LOGINS)]
        done = list(pool.map(_timed, argvs))
    seconds = [spent for spent, said in done if said is None]
    refused = sum("too many connections" in said for _, said in done if said is not None)
    took = f"; median {median(seconds):.1f} s, slowest {max(seconds):.1f} s" if seconds else ""
    failed = LOGINS - len(seconds)
    return failed, f"{failed} failed, {refused} of them told 429{took}"


def _timed(argv: Sequence[str]) -> tuple[float, str | None]:
    """Log in; give the seconds, and where it failed what ssh said."""
    began = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return time.monotonic() - began, done.stderr if done.returncode else None


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"
