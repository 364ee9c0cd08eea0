"""``python3 -m routes``: follow the cluster, and tell the Envoy beside it which storages and web ports there are."""

import argparse
import ipaddress
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from watching.api_server import ApiServer
from watching.follow import Follower
from watching.log import event

from routes.envoy import clusters_json, routes_json
from routes.files import Files
from routes.hosts import Site
from routes.metrics import Metrics
from routes.room import Left, fitting
from routes.view import View

API_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds who it is to the API server."""

CLUSTERS, ROUTES = "clusters.json", "routes.json"

LOOK_SECONDS = 0.2
"""Between looks at what is known: what changes at once is written once."""

LONGEST_WAIT = 2.0
"""Seconds that a change waits for others to end; then it is written, and what follows with the next."""

AGAIN_SECONDS = 5.0
"""Until what could not be written is tried again: the volume is full, until something that fills it goes."""


def arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line; a mistake ends the program with a usage message."""
    parser = argparse.ArgumentParser(prog="routes", description="Writes Envoy's routes and clusters as files.")
    parser.add_argument("--folder", type=Path, required=True, help=f"where {CLUSTERS} and {ROUTES} are to be")
    parser.add_argument("--host", required=True, help="main host of the proxy; every origin is one label below it")
    parser.add_argument("--port", type=int, default=443, help="where clients find it (default: %(default)s)")
    parser.add_argument("--owner", action="append", required=True, metavar="STACK", help="a stack to show; repeatable")
    parser.add_argument("--pod-cidr", action="append", required=True, help="where pods have addresses; repeatable")
    parser.add_argument("--api-dir", type=Path, default=API_DIR, help="ca.crt and token for the API server")
    parser.add_argument("--api-server", default=_in_cluster(), metavar="HOST:PORT", help="default: this cluster's")
    return parser.parse_args(argv)


def _in_cluster() -> str:
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{what}", "") for what in ("HOST", "PORT"))
    return f"{host}:{port}"


def followed(options: argparse.Namespace) -> tuple[View, list[Follower]]:
    """Begin to follow the cluster; the view is empty until it has answered."""
    host, _, port = options.api_server.rpartition(":")
    folder, view = options.api_dir, View(tuple(map(ipaddress.ip_network, options.pod_cidr)))
    api = ApiServer(host.strip("[]"), int(port), folder / "ca.crt", folder / "token")
    followers = [Follower(api, table) for table in view.tables]
    for follower in followers:
        follower.start()
    return view, followers


class Writer:
    """Writes what a view says, once it has been quiet for a moment."""

    def __init__(
        self, view: View, followers: Sequence[Follower], owners: frozenset[str], site: Site, files: Files
    ) -> None:
        self.view, self.followers, self.owners, self.site, self.files = view, followers, owners, site, files
        self._fresh = float("-inf")
        self._written: tuple[object, ...] | None = None
        self._seen: tuple[object, ...] | None = None
        self._since = 0.0
        self._again = float("-inf")
        self._failed = False
        self._left: set[tuple[str, str]] = set()

    @property
    def age(self) -> float:
        """Give the seconds since what is written was known to be what the cluster has."""
        return time.monotonic() - self._fresh

    def look(self) -> None:
        """Look once; write where something new has settled, or has not for too long."""
        heard = min(follower.heard for follower in self.followers)
        self._settle()
        if self._written is not None and _same(self._written, self.view.state):
            self._fresh = heard

    def _settle(self) -> None:
        state = self.view.state
        if state is None or _same(state, self._written) or time.monotonic() < self._again:
            return
        if self._written is not None and not _same(state, self._seen):
            self._since = self._since or time.monotonic()
            self._seen = state
            if time.monotonic() - self._since < LONGEST_WAIT:
                return
        self._write(state)

    def _write(self, state: tuple[object, ...]) -> None:
        begun = time.monotonic()
        tenants, left = fitting(self.view.tenants(self.owners), self.site)
        self._tell(left)
        # clusters first, for Envoy: a route that leads to none would answer 503 where it led on before
        texts = {CLUSTERS: clusters_json(tenants), ROUTES: routes_json(tenants, self.site)}
        sizes = {name: len(text) for name, text in texts.items()}
        try:
            changed = [name for name, text in texts.items() if self.files.write(name, text)]
        except OSError as error:
            self._wait(error, sizes)
            return
        self._written, self._seen, self._since, self._failed = state, None, 0.0, False
        if changed:
            counts = {"storages": sum(len(t.storages) for t in tenants), "ports": sum(len(t.ports) for t in tenants)}
            took = round(1000 * (time.monotonic() - begun))
            event("written", files=changed, tenants=len(tenants), **counts, bytes=sizes, milliseconds=took)

    def _tell(self, left: list[Left]) -> None:
        """Say of whom nothing is served, once for each, however often others change."""
        now = {(one.event, one.namespace) for one in left}
        for one in left:
            if (one.event, one.namespace) not in self._left:
                event(one.event, owner=one.owner, namespace=one.namespace, bytes=one.bytes, most=one.most)
        self._left = now

    def _wait(self, error: OSError, sizes: dict[str, int]) -> None:
        """Leave what is served, and say so once, however long it lasts."""
        self._again = time.monotonic() + AGAIN_SECONDS
        if not self._failed:
            self._failed = True
            event("cannot-write", reason=str(error), bytes=sizes)


def _same(one: tuple[object, ...], other: tuple[object, ...] | None) -> bool:
    """Say whether both are of the same tables: each change makes a new one."""
    return other is not None and all(mine is yours for mine, yours in zip(one, other, strict=True))


def main(argv: list[str]) -> int:
    """Run until SIGTERM or SIGINT; 0 after an ordered end, 1 with one sentence where it cannot start."""
    options = arguments(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        site, files = Site(options.host, options.port), Files(options.folder)
        writer = Writer(*followed(options), frozenset(options.owner), site, files)
        Metrics(options.folder, lambda: writer.age)
    except (OSError, ValueError) as error:
        event("cannot-start", reason=str(error))
        return 1
    event("following", host=options.host, owners=sorted(options.owner))
    while not stop.wait(LOOK_SECONDS):
        writer.look()
    event("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
