"""A namespace for questions that only an API server can answer; it is gone afterwards."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from lightkube import ApiError, Client
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Namespace

from components import names
from policy.baseline import NAMESPACE_LABELS
from tools.shell import ToolError, say

GONE_SECONDS = 60.0
"""An empty namespace goes in about five seconds; a busy cluster gets more."""


@contextmanager
def room(client: Client, owner: str) -> Iterator[str]:
    """Give the name of an empty namespace in the law of a tenant; remove it whatever happens.

    Raises ApiError where the deployer may not make one, ToolError where one of that name is somebody else's.
    """
    name = f"{names.PROJECT}-doctor-{hashlib.sha256(owner.encode()).hexdigest()[:8]}"
    worn = {**names.labels(owner=owner, component="doctor", instance="doctor"), **NAMESPACE_LABELS}
    try:
        _make(client, Namespace(metadata=ObjectMeta(name=name, labels=worn)), name, owner)
        yield name
    finally:
        _remove(client, name, owner)


def _make(client: Client, namespace: Namespace, name: str, owner: str) -> None:
    """Make it; what a doctor that was killed left behind goes first."""
    try:
        client.create(namespace)
    except ApiError as error:
        if error.response.status_code != httpx2.codes.CONFLICT:
            raise
        _remove(client, name, owner)
        client.create(namespace)


def _remove(client: Client, name: str, owner: str) -> None:
    """Remove our namespace and wait until it is gone."""
    found = _found(client, name)
    if found is None:
        return
    worn = (found.metadata.labels if found.metadata else None) or {}
    if worn.get(names.OWNER_LABEL) != owner:
        raise ToolError(f"namespace {name} is not ours (no label {names.OWNER_LABEL}={owner}): remove it first")
    client.delete(Namespace, name)
    end = time.monotonic() + GONE_SECONDS
    while _found(client, name):
        if time.monotonic() > end:
            say(f"namespace {name} is still going after {GONE_SECONDS:.0f} s; it needs no help")
            return
        time.sleep(0.2)


def _found(client: Client, name: str) -> Namespace | None:
    try:
        return client.get(Namespace, name)
    except ApiError as error:
        if error.response.status_code in {httpx2.codes.NOT_FOUND, httpx2.codes.FORBIDDEN}:
            return None
        raise
