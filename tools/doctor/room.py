"""A namespace for questions that only the cluster itself can answer; it is gone afterwards."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from lightkube import ApiError, Client, codecs
from lightkube.resources.core_v1 import Namespace

from components import names
from components.model import Manifest
from tools.shell import HEARTBEAT_SECONDS, ToolError, say

GONE_SECONDS = 60.0
"""A namespace whose pods have ended goes in about five seconds; a busy cluster gets more."""


def room_owner(stack: str) -> str:
    """Give the owner that doctor's objects carry: no stack has that name, and its length is known."""
    return f"doctor-{hashlib.sha256(stack.encode()).hexdigest()[:8]}"


@contextmanager
def room(client: Client, namespace: Manifest) -> Iterator[str]:
    """Make *namespace*, give its name, and remove it whatever happens.

    Raises ApiError where the deployer may not make one, ToolError where one of that name is somebody else's.
    """
    meta = namespace["metadata"]
    name, owner = str(meta["name"]), str(meta["labels"][names.OWNER_LABEL])
    _remove(client, name, owner)  # what a doctor that was killed left behind
    try:
        client.create(codecs.from_dict(namespace))
        yield name
    finally:
        _remove(client, name, owner)


def _remove(client: Client, name: str, owner: str) -> None:
    """Remove our namespace, where it is there, and wait until it is gone."""
    found = _found(client, name)
    if found is None:
        return
    worn = (found.metadata.labels if found.metadata else None) or {}
    if worn.get(names.OWNER_LABEL) != owner:
        raise ToolError(f"namespace {name} is not ours (no label {names.OWNER_LABEL}={owner}): remove it first")
    client.delete(Namespace, name)
    said = time.monotonic()
    end = said + GONE_SECONDS
    while _found(client, name):
        now = time.monotonic()
        if now > end:
            say(f"namespace {name} is still going after {GONE_SECONDS:.0f} s; it needs no help")
            return
        if now - said >= HEARTBEAT_SECONDS:
            said = now
            say(f"doctor: waiting until namespace {name} is gone")
        time.sleep(0.2)


def _found(client: Client, name: str) -> Namespace | None:
    try:
        return client.get(Namespace, name)
    except ApiError as error:
        if error.response.status_code in {httpx2.codes.NOT_FOUND, httpx2.codes.FORBIDDEN}:
            return None
        raise
