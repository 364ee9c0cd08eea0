"""What a running stack costs and gives: writes while nobody does anything, logins at once, an echo beside a copy."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from lightkube import Client
from lightkube.resources.apps_v1 import Deployment, ReplicaSet
from lightkube.resources.batch_v1 import Job
from lightkube.resources.coordination_v1 import Lease
from lightkube.resources.core_v1 import (
    ConfigMap,
    Event,
    Namespace,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
    Secret,
    Service,
    ServiceAccount,
)
from lightkube.resources.discovery_v1 import EndpointSlice
from lightkube.resources.networking_v1 import NetworkPolicy
from lightkube.resources.policy_v1 import PodDisruptionBudget

from bench.figures import Row
from tools.shell import ToolError
from tools.stack.client import through

KINDS: tuple[Any, ...] = (
    ConfigMap, Deployment, EndpointSlice, Event, Job, Lease, NetworkPolicy, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, ReplicaSet, ResourceQuota, Secret, Service, ServiceAccount,
)  # fmt: skip
"""Every kind that we make, and those that a controller or a client of ours would write."""

REST_SECONDS = 60.0
"""Twice the longest period of anything that looks around here by itself."""

SETTLE_SECONDS = 20.0
"""After an `up`, until its last events are written."""

LOGINS = 100
ECHOES = 200
ECHO_GOAL_MS = 100.0
"""Above it people say that a terminal lags; stated here for want of anybody else's figure."""


@dataclass(frozen=True)
class Way:
    """A unit that clients reach at *entrance* as *host*; *options* are ssh's."""

    entrance: tuple[str, int]
    host: str
    options: tuple[str, ...]

    @property
    def login(self) -> list[str]:
        """Give the command line that logs in."""
        proxy = (f"-o{key}={value}" for key, value in through(*self.entrance).items())
        return ["ssh", "-F", "none", *self.options, *proxy, self.host]


def writes_at_rest(client: Client, namespaces: Sequence[str]) -> Row:
    """Count objects in our namespaces that anybody wrote while nothing was asked of them."""
    time.sleep(SETTLE_SECONDS)
    before = _versions(client, namespaces)
    time.sleep(REST_SECONDS)
    after = _versions(client, namespaces)
    changed = {(before.get(uid) or after[uid]).split()[0] for uid, _ in before.items() ^ after.items()}
    note = f"{len(before)} objects of {len(namespaces)} namespaces" + "".join(f", {one}" for one in sorted(changed)[:7])
    return Row(f"objects written at rest in {REST_SECONDS:.0f} s", str(len(changed)), float(len(changed)), 0.0, note)


def _versions(client: Client, namespaces: Sequence[str]) -> dict[str, str]:
    """Give kind, name and version of all that there is, by uid."""
    places = product(KINDS, namespaces)
    found = [(kind, one.metadata) for kind, space in places for one in client.list(kind, namespace=space)]
    found += [(Namespace, client.get(Namespace, space).metadata) for space in namespaces]
    return {meta.uid or "": f"{kind.__name__}/{meta.name} {meta.resourceVersion}" for kind, meta in found if meta}


def logins_at_once(ways: Sequence[Way]) -> Row:
    """Log in LOGINS times at once, into all units in turn; the figure is the number of those that failed."""
    with ThreadPoolExecutor(LOGINS) as pool:
        done = list(pool.map(lambda number: _timed_login(ways[number % len(ways)].login), range(LOGINS)))
    seconds = [spent for spent, status in done if status == 0]
    failed = LOGINS - len(seconds)
    took = f"; median {median(seconds):.1f} s, slowest {max(seconds):.1f} s" if seconds else ""
    return Row(f"{LOGINS} logins at once, {len(ways)} units", f"{failed} failed{took}", float(failed), 0.0, _load())


def _timed_login(argv: Sequence[str]) -> tuple[float, int]:
    began = time.monotonic()
    done = subprocess.run([*argv, "true"], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return time.monotonic() - began, done.returncode


def echo_beside_a_copy(way: Way, other: Way) -> Iterator[Row]:
    """Type into a session of one unit, first alone, then while a copy to another fills the tier."""
    with _echoing(way) as echo:
        alone = [echo() for _ in range(ECHOES)]
        with _copying(other):
            beside = [echo() for _ in range(ECHOES)]
    for name, found, goal in (("alone", alone, None), ("beside a saturating copy", beside, ECHO_GOAL_MS)):
        middle, late = median(found) * 1000, quantiles(found, n=20)[-1] * 1000
        shown = f"{late:.1f} (median {middle:.1f}, slowest {max(found) * 1000:.1f})"
        yield Row(f"echo {name}, 95th percentile, ms", shown, late, goal, _load())


@contextmanager
def _echoing(way: Way) -> Iterator[Callable[[], float]]:
    """Hold a session open, and give what times one key there and back."""
    process = subprocess.Popen([*way.login, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    typed, shown = process.stdin, process.stdout
    if typed is None or shown is None:
        raise ToolError("ssh has no pipes")

    def echo() -> float:
        began = time.monotonic()
        os.write(typed.fileno(), b"x")
        if os.read(shown.fileno(), 1) != b"x":
            raise ToolError("the session that echoes has ended")
        took = time.monotonic() - began
        time.sleep(0.02)
        return took

    try:
        echo()
        yield echo
    finally:
        typed.close()
        process.wait(30)


@contextmanager
def _copying(way: Way) -> Iterator[None]:
    """Send as much as the tier takes, for as long as the block runs."""
    with Path("/dev/zero").open("rb") as zero:
        process = subprocess.Popen([*way.login, "cat >/dev/null"], stdin=zero)
        time.sleep(2)  # ssh and TCP have found their pace
        try:
            yield
            if process.poll() is not None:
                raise ToolError("the copy ended before its measurement did")
        finally:
            process.terminate()
            process.wait(30)


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"
