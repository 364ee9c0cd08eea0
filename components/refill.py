"""Whether a storage may be filled now: not over the data of units that run, nor beside what an earlier run left.

The refusal is a resource hook of the program, so that a bare ``pulumi up`` has it too. The Job's name, which says the
content, is on the claim, which outlives every Job: the hook of the claim's update sees the old content and the new.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from lightkube import ApiError, Client
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Pod
from lightkube.types import CascadeType
from status.objects import condition

from components import cluster, names
from components.model import Manifest
from components.storage_spec import Storage
from components.survey import listed_everywhere

NOT_FOUND = 404

POLL_SECONDS = 1.0

Place = tuple[str, str]
"""Namespace, and name of a Job or a unit."""


def finished(client: Client, owner: str, namespaces: Iterable[str]) -> frozenset[Place]:
    """Name the prepare Jobs of stack *owner* that ended well. Raises UnreachableError."""
    labels = {names.OWNER_LABEL: owner, names.COMPONENT_LABEL: "prepare"}
    with cluster.answered():
        jobs = list(listed_everywhere(client, Job, sorted(set(namespaces)), labels))
    done = (job["metadata"] for job in jobs if condition(job, "Complete").get("status") == "True")
    return frozenset((meta["namespace"], meta["name"]) for meta in done)


def started(client: Client, owner: str, namespaces: Iterable[str]) -> frozenset[Place]:
    """Name the units of stack *owner* that are to run as far as the cluster knows. Raises UnreachableError."""
    labels = {names.OWNER_LABEL: owner, names.COMPONENT_LABEL: "unit"}
    with cluster.answered():
        units = list(listed_everywhere(client, Deployment, sorted(set(namespaces)), labels))
    running = (one["metadata"] for one in units if one["spec"].get("replicas") != 0)
    return frozenset((meta["namespace"], meta["labels"]["app.kubernetes.io/instance"]) for meta in running)


def refusal(storage: Storage, old: Manifest, new: Manifest, there: frozenset[Place] | None = None) -> str | None:
    """Say why a claim's update is refused, or None: other content would come over the data of units that run.

    A claim that says of no content may hold what units wrote. *there*: the units that were started, None for all; one
    that still waits for its first data has none to lose.
    """
    before, after = (_content(claim) for claim in (old, new))
    running = [unit for unit in storage.running if there is None or (storage.namespace, unit) in there]
    if not running or after in {None, before}:
        return None
    units = [f"{unit}.{storage.tenant}" for unit in running]
    who, they = ("unit", "it") if len(units) == 1 else ("units", "they")
    return (
        f"storage {storage.alias} would be filled anew over its data, and {who} {', '.join(units)} may use that: "
        f"say `running: false` of {'that unit' if they == 'it' else 'those units'} "
        f"(make stop UNIT={units[0]}) until it is filled, or take the change of `prepare` back."
    )


def _content(claim: Manifest) -> str | None:
    found: Mapping[str, Any] = (claim.get("metadata") or {}).get("annotations") or {}
    return found.get(names.PREPARE_ANNOTATION)


@dataclass(frozen=True)
class Refill:
    """What the components of storages ask; *done* and *started* are None where nobody asked the cluster."""

    done: frozenset[Place] | None
    started: frozenset[Place] | None
    connect: Callable[[], Client] | None

    def is_done(self, storage: Storage) -> bool:
        """Say whether the Job ended well: whatever is said of it now, it has nothing more to do."""
        return self.done is None or (storage.namespace, storage.job) in self.done

    def guard(self, storage: Storage) -> pulumi.ResourceHook:
        """Give the hook for ``before_update`` of a storage's claim."""

        def guard(args: pulumi.ResourceHookArgs) -> None:
            if reason := refusal(storage, dict(args.old_inputs or {}), dict(args.new_inputs or {}), self.started):
                raise RuntimeError(reason)

        return pulumi.ResourceHook(f"guard-data-{storage.alias}", guard, pulumi.ResourceHookOptions(on_dry_run=True))

    def clearing(self, storage: Storage) -> pulumi.ResourceHookBinding | None:
        """Give the hook for ``before_create`` of a storage's Job; none where nobody may ask."""
        if self.connect is None:
            return None
        connect = self.connect

        async def clear(_: pulumi.ResourceHookArgs) -> None:
            await _clear(connect, storage)

        hook = pulumi.ResourceHook(f"clear-way-{storage.alias}", clear)
        return pulumi.ResourceHookBinding(before_create=[hook])


UNASKED = Refill(None, None, None)
"""For programs that ask no cluster."""


async def _clear(connect: Callable[[], Client], storage: Storage) -> None:
    """Wait until nobody else uses the volume. Raises RuntimeError when that takes longer than filling it may."""
    timeout = storage.spec.prepare.timeout_seconds if storage.spec.prepare else 0
    end = time.monotonic() + timeout
    while in_the_way := await asyncio.to_thread(_look, connect, storage):
        if time.monotonic() > end:
            raise RuntimeError(f"storage {storage.alias} is not filled: {in_the_way} after {timeout} s")
        await asyncio.sleep(POLL_SECONDS)


def _look(connect: Callable[[], Client], storage: Storage) -> str | None:
    with cluster.ONE_AT_A_TIME, cluster.answered(), connect() as client:
        return in_the_way(client, storage)


def in_the_way(client: Client, storage: Storage) -> str | None:
    """Say who else may write to the volume; a Job that an interrupted run left behind is removed.

    The engine does not know of that one, and nothing can change a Job. What it has done, its successor finds done.
    """
    try:
        left = client.get(Job, storage.job, namespace=storage.namespace)
    except ApiError as error:
        if error.status.code != NOT_FOUND:
            raise
    else:
        if left.metadata is None or (reason := cluster.not_ours(storage.owner, left.metadata.labels)):
            raise RuntimeError(f"job {storage.namespace}/{storage.job} {reason}; rename the storage {storage.alias}")
        if not left.metadata.deletionTimestamp:
            client.delete(Job, storage.job, namespace=storage.namespace, cascade=CascadeType.FOREGROUND)
        return f"job {storage.job} of an earlier run is still there"
    ending = [unit for unit in storage.resting if _has_pod(client, storage.namespace, unit)]
    return f"the pod of unit {ending[0]}.{storage.tenant} has not ended" if ending else None


def _has_pod(client: Client, namespace: str, unit: str) -> bool:
    """Say whether a unit has a pod that has not ended; one that was told to end may still write."""
    labels: dict[str, Any] = dict(names.selector("unit", unit))
    phases = (pod.status.phase if pod.status else None for pod in client.list(Pod, namespace=namespace, labels=labels))
    return any(phase not in {"Succeeded", "Failed"} for phase in phases)
