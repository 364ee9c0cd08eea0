"""What the gate counts, for Prometheus: no label has a unit or a tenant in it, so that series stay few."""

import time
from functools import partial
from typing import Any, Final

from prometheus_client import REGISTRY, Counter, Gauge, start_http_server
from watching.follow import Follower
from watching.table import Table

OPERATIONS: Final = frozenset({"Login", "NewProxy", "NewUserConn"})

DECISIONS = Counter("gate_decisions", "Answers to tunnel servers.", ["op", "decision"])
PREVIOUS = Counter("gate_previous_key", "What was allowed by a key that is being rotated out.", ["op"])
UNREADY = Counter("gate_unready", "Requests that met a gate without keys.")
OBJECTS = Gauge("gate_view_objects", "Namespaces and unit Services that the gate knows; -1: not yet any.", ["what"])
AGE = Gauge("gate_view_age_seconds", "Since the API server last said something.", ["what"])


def count(op: object, decision: str) -> None:
    """Count one answer; what a client calls its operation makes no series of its own."""
    DECISIONS.labels(op if op in OPERATIONS else "other", decision).inc()


def observe(*followers: Follower) -> None:
    """Report what *followers* know, as it is whenever somebody asks."""
    for follower in followers:
        what = follower.table.kind.path.rpartition("/")[2]
        OBJECTS.labels(what).set_function(partial(_objects, follower.table))
        AGE.labels(what).set_function(partial(_age, follower))


def _objects(table: Table[Any]) -> float:
    return -1 if table.known is None else len(table.known)


def _age(follower: Follower) -> float:
    return time.monotonic() - follower.heard


def serve(address: str, port: int) -> None:
    """Answer scrapes over plain HTTP in a thread of its own.

    Raises OSError where the port is taken.
    """
    start_http_server(port, address, REGISTRY)
