"""What the proxy costs: a download through it beside one from dufs itself, and a change among 1,000 storages.

Real Envoy, dufs and `routes` on this machine, as the tests of the services run them; the API server is the tests' own.
"""

import http
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.figures import Row, ratios
from tests.services.cluster import put_browser
from tests.services.proxies import HOST, Proxy, Upstream, proxy
from tests.services.test_browser_behind_proxy import Shown
from tests.services.test_routes_served import ALICE, DATA, ROOT, Running, a_cluster_of
from tests.services.world import Authority
from tools.images.build import part_files
from tools.images.recipes import ENVOY
from tools.shell import ToolError

FILE_MIB = 1024
"""Some seconds of a loopback: what begins and ends a download is no part of the figure."""

SLOW = 125_000_000
"""Bytes a second: a network of 1 Gbit/s, as clients have it; else processors alone are compared."""

TIME_GOAL = 1 / 0.9
"""The issue's own: at least 0.9 of what dufs gives directly."""

GROWTH_GOAL_MIB = 32.0
"""What Envoy may keep for one download; its buffers have a bound, files have none."""

STORAGES = 1000
CHANGE_GOAL_SECONDS = 5.0
PATIENCE_SECONDS = 300.0


def proxy_rows(rounds: int) -> Iterator[Row]:
    """Download the same file directly and through the proxy, in turns."""
    with TemporaryDirectory(prefix="gpu-runtime-bench-") as scratch:
        shown = Shown(Path(scratch) / "shown")
        try:
            with (Path(scratch) / "shown/dataset/big").open("wb") as file:
                for _ in range(FILE_MIB):
                    file.write(os.urandom(1 << 20))
            before = _resident(shown.proxy.process.popen.pid)
            yield from _downloads(shown, Path(scratch), rounds)
            after = _resident(shown.proxy.process.popen.pid)
            shape = f"{before:.1f} at first, {after:.1f} after {FILE_MIB} MiB again and again"
            grown = after - before
            yield Row("proxy: growth of Envoy, MiB", f"{grown:.1f}", grown, GROWTH_GOAL_MIB, shape)
        finally:
            shown.end()


def _downloads(shown: Shown, folder: Path, rounds: int) -> Iterator[Row]:

    path, host = "/storage/lab-a/dataset/big", f"dataset--lab-a.{HOST}"
    signed = folder / "signed"
    signed.write_text(f'header = "Authorization: {ALICE["Authorization"]}"\n')
    where = f"::127.0.0.1:{shown.proxy.places.https}"
    direct = [f"http://127.0.0.1:{shown.ports['dataset']}{path}"]
    proxied = ["-K", str(signed), "-k", "--connect-to", where, f"https://{host}{path}"]
    ways = {"HTTP/2": ["--http2", *proxied], "HTTP/1.1": ["--http1.1", *proxied]}
    for speed, limit in (("as fast as it goes", []), ("at 1 Gbit/s", ["--limit-rate", str(SLOW)])):
        found: dict[str, list[float]] = {"dufs": [], **{name: [] for name in ways}}
        for _ in range(rounds):
            found["dufs"].append(_fetched([*limit, *direct]))
            for name, way in ways.items():
                found[name].append(_fetched([*limit, *way]))
        for name in ways:
            middle, best = ratios(found[name], found["dufs"])
            rates = ", ".join(f"{who} {FILE_MIB / median(found[who]):.0f} MiB/s" for who in ("dufs", name))
            note = f"{rates}; best {1 / best:.2f}, {_load()}"
            yield Row(
                f"proxy: {name} {speed}, time beside dufs",
                f"{middle:.2f} (speed {1 / middle:.2f})",
                middle,
                TIME_GOAL,
                note,
            )


def _fetched(words: list[str]) -> float:
    """Give the seconds of a whole download."""
    argv = [shutil.which("curl") or "curl", "-sSf", "-o", "/dev/null", "-w", "%{time_total} %{size_download}", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    seconds, _, size = done.stdout.partition(" ")
    if done.returncode or int(size) != FILE_MIB << 20:
        raise ToolError(f"a download ended with {done.returncode} after {size or 0} bytes: {done.stderr.strip()}")
    return float(seconds)


def _resident(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) / 1024


def route_rows(rounds: int) -> Iterator[Row]:
    """Make STORAGES storages, then one more several times, while a download runs that must come to its end."""
    with TemporaryDirectory(prefix="gpu-runtime-bench-") as scratch:
        folder, upstream = Path(scratch), Upstream()
        (folder / "ca").mkdir()
        with proxy(part_files(ENVOY) / "envoy", folder / "proxy", upstream.port, per_source=100_000) as served:
            routes = a_cluster_of(folder, Authority(folder / "ca"), folder / "proxy/routes", upstream)
            try:
                yield from _changes(served, routes, upstream, rounds)
            finally:
                upstream.may_end.set()
                routes.end()
                upstream.end()


def _changes(served: Proxy, routes: Running, upstream: Upstream, rounds: int) -> Iterator[Row]:
    _until_served(served, "data")
    upstream.body = os.urandom(1 << 20) * 16
    upstream.may_end.clear()  # half of it comes at once, the rest at the end
    got: list[bytes] = []
    with closing(served.open(DATA)) as connection:
        connection.sock.settimeout(PATIENCE_SECONDS)  # it waits for the changes in the middle
        connection.request("GET", f"{ROOT}/big", headers=ALICE)
        reader = threading.Thread(target=lambda: got.append(connection.getresponse().read()))
        reader.start()
        yield from _timed_changes(served, routes, rounds)
        upstream.may_end.set()
        reader.join(PATIENCE_SECONDS)
    cut = float(got != [upstream.body])
    yield Row("routes: downloads that were cut", f"{cut:.0f}", cut, 0.0, "one of 16 MiB through all of these changes")


def _timed_changes(served: Proxy, routes: Running, rounds: int) -> Iterator[Row]:
    begun = time.monotonic()
    for number in range(STORAGES):
        put_browser(routes.cluster, f"many-{number}", "lab-a")
    _until_served(served, f"many-{STORAGES - 1}")
    yield Row(f"routes: {STORAGES} storages at once, seconds", *_figure([time.monotonic() - begun]))
    pids = {"routes": routes.process.popen.pid, "Envoy": served.process.popen.pid}
    before, seconds = {name: _processor(pid) for name, pid in pids.items()}, []
    for number in range(rounds):
        begun = time.monotonic()
        put_browser(routes.cluster, f"more-{number}", "lab-a")
        _until_served(served, f"more-{number}")
        seconds.append(time.monotonic() - begun)
    costs = (f"{name} {(_processor(pid) - before[name]) / rounds:.2f} s of processor" for name, pid in pids.items())
    memory = (f"{name} {_resident(pid):.0f} MiB" for name, pid in pids.items())
    size = sum(routes.process.events("written")[-1]["bytes"].values())
    note = ", ".join((*costs, *memory, f"files {size >> 10} KiB", _load()))
    yield Row(f"routes: one more of {STORAGES}, seconds", *_figure(seconds), CHANGE_GOAL_SECONDS, note)


def _until_served(served: Proxy, storage: str) -> None:
    host = f"{storage}--lab-a.{HOST}"
    end = time.monotonic() + PATIENCE_SECONDS
    while served.status("/", host, headers=ALICE) != http.HTTPStatus.FOUND:
        if time.monotonic() > end:
            raise ToolError(f"waited {PATIENCE_SECONDS:.0f} s for {storage} to be served")
        time.sleep(0.05)


def _figure(found: list[float]) -> tuple[str, float]:
    return f"{median(found):.1f} (best {min(found):.1f}, {len(found)} runs)", median(found)


def _processor(pid: int) -> float:
    """Give the seconds of processor that *pid* has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"
