"""Whether a storage may be filled now: not over the data of units that run, nor beside what an earlier run left.

The refusal is a resource hook of the program, so that a bare ``pulumi up`` has it too. The Job's name, which says the
content, is on the claim, which outlives every Job: the hook of the claim's update sees the old content and the new.
Who has the volume is asked of the cluster then: a unit that leaves the stack file in the same change is still there.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from lightkube import ApiError, Client
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import PersistentVolumeClaim
from lightkube.types import CascadeType
from status.objects import before, condition

from components import cluster, names
from components.cluster import Claim
from components.cluster_storage import LiveClaim
from components.cluster_view import PAGE
from components.model import Manifest
from components.mounting import Mounter, mounters
from components.storage_spec import Storage
from components.survey import listed_everywhere

NOT_FOUND = 404

BEFORE = "an `up` before this one"

POLL_SECONDS = 1.0

Place = tuple[str, str]
"""Namespace, and name of a Job."""


def finished(
    client: Client, owner: str, namespaces: Iterable[str], claims: Mapping[Claim, LiveClaim]
) -> frozenset[Place]:
    """Name the prepare Jobs of stack *owner* that have filled one of *claims*. Raises UnreachableError.

    A Job that is older than its claim has filled another volume, which is gone.
    """
    labels = {names.OWNER_LABEL: owner, names.COMPONENT_LABEL: "prepare"}
    with cluster.answered():
        jobs = list(listed_everywhere(client, Job, sorted(set(namespaces)), labels))
    done = [job["metadata"] for job in jobs if condition(job, "Complete").get("status") == "True"]
    return frozenset((meta["namespace"], meta["name"]) for meta in done if _there(meta, claims))


def _there(job: Manifest, claims: Mapping[Claim, LiveClaim]) -> bool:
    """Say whether the claim is there that a Job of this metadata has filled."""
    live = claims.get(Claim(job["namespace"], names.claim(job["labels"]["app.kubernetes.io/instance"])))
    return live is not None and not before(job.get("creationTimestamp"), live.created)


def refusal(storage: Storage, users: Iterable[Mounter]) -> str | None:
    """Say why other content may not come into a volume that *users* have, or None where nobody would mind.

    Units at rest are told to end before it comes, and who is about to end is waited for.
    """
    minding = [one for one in users if not one.ends(storage) and not one.only_shows(storage)]
    if not minding:
        return None
    browsers = [one for one in minding if one.is_browser(storage)]
    running = [one for one in minding if one.stays(storage) and one not in browsers]
    others = [one.text for one in minding if one not in running and one not in browsers]
    units = [one.text.removeprefix("unit ") for one in running]
    advice = [*_stop(units), *_let_end(others), *(f"take `upload` from {one.text} in {BEFORE}" for one in browsers)]
    return (
        f"storage {storage.alias} would be filled anew over its data, "
        f"and {', '.join(one.text for one in minding)} may use that: "
        f"{', '.join(advice)}, or take the change of `prepare` back."
    )


def _stop(units: list[str]) -> Iterator[str]:
    if units:
        which = "that unit" if len(units) == 1 else "those units"
        yield f"say `running: false` of {which} (make stop UNIT={units[0]}) until it is filled"


def _let_end(others: list[str]) -> Iterator[str]:
    if others:
        yield f"let {', '.join(others)} end first ({BEFORE} removes what the stack file no longer has)"


def _brings(old: Manifest, new: Manifest) -> bool:
    """Say whether a claim's update brings other content; one that says of none may hold what units wrote."""
    before, after = (_content(claim) for claim in (old, new))
    return after not in {None, before}


def _content(claim: Manifest) -> str | None:
    found: Mapping[str, Any] = (claim.get("metadata") or {}).get("annotations") or {}
    return found.get(names.PREPARE_ANNOTATION)


@dataclass(frozen=True)
class Refill:
    """What the components of storages ask; *done* and *connect* are None where nobody may ask the cluster."""

    done: frozenset[Place] | None
    connect: Callable[[], Client] | None

    def is_done(self, storage: Storage) -> bool:
        """Say whether the Job ended well: whatever is said of it now, it has nothing more to do."""
        return self.done is None or (storage.namespace, storage.job) in self.done

    def guard(self, storage: Storage) -> pulumi.ResourceHookBinding:
        """Give the hook for ``before_create`` and ``before_update`` of a storage's claim.

        A claim that is made anew, since somebody deleted it, would hold nothing, and units may wait for it.
        """

        async def guard(args: pulumi.ResourceHookArgs) -> None:
            old, new = args.old_inputs, dict(args.new_inputs or {})
            if not _brings(dict(old or {}), new):
                return
            if reason := refusal(storage, await asyncio.to_thread(self._users, storage, made=not old)):
                raise RuntimeError(reason)

        hook = pulumi.ResourceHook(f"guard-data-{storage.alias}", guard, pulumi.ResourceHookOptions(on_dry_run=True))
        return pulumi.ResourceHookBinding(before_create=[hook], before_update=[hook])

    def _users(self, storage: Storage, *, made: bool) -> list[Mounter]:
        """Name who has the volume: nobody who minds where its claim is *made*, and there with the same content.

        Nor does a browser that leaves first. Where nobody may ask, those who run as the stack file says, if the claim
        was there.
        """
        if self.connect is None:
            return [] if made else [Mounter(f"unit {u}.{storage.tenant}", "unit", u) for u in storage.running]
        with cluster.ONE_AT_A_TIME, cluster.answered(), self.connect() as client:
            adopted = made and _said_of(client, storage) == storage.job
            users = [] if adopted else mounters(client, storage)
            return [one for one in users if not (one.is_browser(storage) and _leaves(client, storage))]

    def clearing(self, storage: Storage) -> pulumi.ResourceHookBinding | None:
        """Give the hook for ``before_create`` of a storage's Job; none where nobody may ask."""
        if self.connect is None:
            return None
        connect = self.connect

        async def clear(_: pulumi.ResourceHookArgs) -> None:
            await _clear(connect, storage)

        hook = pulumi.ResourceHook(f"clear-way-{storage.alias}", clear)
        return pulumi.ResourceHookBinding(before_create=[hook])


UNASKED = Refill(None, None)
"""For programs that ask no cluster."""


def _said_of(client: Client, storage: Storage) -> str | None:
    """Give the content that the claim says which is there; None where none is."""
    try:
        live = client.get(PersistentVolumeClaim, names.claim(storage.name), namespace=storage.namespace)
    except ApiError as error:
        if error.status.code != NOT_FOUND:
            raise
        return None
    return _content(live.to_dict())


def _leaves(client: Client, storage: Storage) -> bool:
    """Say whether the engine takes the browser away before the new Job: with the old one, if it knows both."""
    return storage.spec.browser is not None and any(_jobs(client, storage))


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

    Raises RuntimeError for who would not end.
    """
    # the engine, about to make a Job, knows of none; nothing can change one, and two would write beside each other.
    # What one has done, its successor finds done
    for meta in _jobs(client, storage):
        if not meta.deletionTimestamp:
            _remove(client, storage.namespace, meta.name or "")
        return f"job {meta.name} of an earlier run is still there"
    having = [one for one in mounters(client, storage) if not one.stays(storage)]
    if staying := [one.text for one in having if not one.ends(storage)]:
        raise RuntimeError(
            f"storage {storage.alias} is not filled: {', '.join(staying)} may use it; let that end first"
        )
    return f"{having[0].text} has not ended" if having else None


def _jobs(client: Client, storage: Storage) -> Iterator[ObjectMeta]:
    """Yield the Jobs that fill the volume, whatever with. Raises RuntimeError for another stack's of that name."""
    own = storage.labels("prepare").items()
    for meta in (job.metadata for job in client.list(Job, namespace=storage.namespace, chunk_size=PAGE)):
        if meta and meta.name == storage.job and (reason := cluster.not_ours(storage.owner, meta.labels)):
            raise RuntimeError(f"job {storage.namespace}/{meta.name} {reason}; rename the storage {storage.alias}")
        if meta and (meta.name == storage.job or own <= (meta.labels or {}).items()):
            yield meta


def _remove(client: Client, namespace: str, job: str) -> None:
    """Have a Job removed after its pods."""
    try:
        client.delete(Job, job, namespace=namespace, cascade=CascadeType.FOREGROUND)
    except ApiError as error:
        if error.status.code != NOT_FOUND:
            raise
