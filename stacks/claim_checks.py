"""What the cluster's own claims and classes say against the storages of a stack: volumes only grow, and stay."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from components import names
from components.cluster import Claim
from components.cluster_storage import LiveClaim, VolumeClass, Volumes
from components.model import quantity
from components.storage_spec import Storage
from components.wording import shortened
from stacks.problems import Problem

MOST_NAMES = 8
"""More storages of one class than anybody reads in a line."""

ANOTHER = "or make a second storage, copy what is needed, and let the units mount that"


def claim_of(storage: Storage) -> Claim:
    """Name the claim of *storage*."""
    return Claim(storage.namespace, names.claim(storage.name))


def claim_problems(storages: Iterable[Storage], found: Volumes) -> Iterator[Problem]:
    """Yield what the cluster cannot do: make a claim, change one that is there, or lose one that is protected."""
    listed = list(storages)
    for storage in listed:
        live = found.claims.get(claim_of(storage))
        yield from _changed(_path(storage), storage, live, found) if live else _made(_path(storage), storage, found)
    wanted = {claim_of(storage) for storage in listed}
    for live in found.claims.values():
        if live.protected and live.at not in wanted:
            yield Problem(
                f"tenants.{live.tenant}.storages.{live.storage}",
                f"is no longer there, but its claim {live.at.namespace}/{live.at.name} is protected: "
                "put it back with `protect: false`, run `up`, and remove it then",
            )


def claim_cautions(storages: Iterable[Storage], found: Volumes) -> Iterator[Problem]:
    """Yield what nobody could check."""
    if any(True for _ in storages) and found.classes is None:
        said = "you may not list storageclasses, so nobody checked that those of the storages are there, and can grow"
        yield Problem("storage", f"{said}; get that right, or ask who may")


def class_news(storages: Iterable[Storage], found: Volumes) -> Iterator[str]:
    """Say of each class that storages use what it can do, and whose it is."""
    users: dict[str, list[str]] = defaultdict(list)
    for storage in storages:
        users[_class_name(storage, found) or ""].append(storage.alias)
    for name, aliases in sorted(users.items()):
        if known := (found.classes or {}).get(name):
            yield f"storage class {known.text}; for {shortened(sorted(aliases), MOST_NAMES)}"


def _path(storage: Storage) -> str:
    return f"tenants.{storage.tenant}.storages.{storage.name}"


def _class_name(storage: Storage, found: Volumes) -> str | None:
    """Name the class that the storage's claim has, or will get."""
    if live := found.claims.get(claim_of(storage)):
        return live.storage_class
    return storage.storage_class or (found.default.name if found.default else None)


def _made(path: str, storage: Storage, found: Volumes) -> Iterator[Problem]:
    """Refuse a claim that no class would ever serve."""
    if found.classes is None:
        return
    there = ", ".join(sorted(found.classes)) or "none"
    name = storage.storage_class
    if name is None and found.default is None:
        advice = f"name one here or in {names.PROJECT}:storage.class; it has {there}"
        yield Problem(f"{path}.class", f"is missing, and the cluster has no default storage class; {advice}")
    if name is not None and name not in found.classes and found.by_hand is not None and name not in found.by_hand:
        yield Problem(f"{path}.class", f"{name!r} is no storage class of this cluster, which has {there}")


def _changed(path: str, storage: Storage, live: LiveClaim, found: Volumes) -> Iterator[Problem]:
    """Refuse what Kubernetes would refuse, or never do, of a claim that is there."""
    if live.going:
        yield Problem(path, f"its claim {live.at.namespace}/{live.at.name} is being deleted; wait until it is gone")
        return
    if storage.storage_class is not None and storage.storage_class != live.storage_class:
        has = f"class {live.storage_class!r}" if live.storage_class else "no class"
        advice = f"say class: {live.storage_class} again, {ANOTHER}" if live.storage_class else f"say none, {ANOTHER}"
        yield Problem(f"{path}.class", f"{storage.storage_class!r}: its claim has {has}, which never changes; {advice}")
    if live.access_modes != (storage.access_mode,):
        has = ", ".join(live.access_modes)
        advice = f"say accessMode: {has} again, {ANOTHER}"
        yield Problem(
            f"{path}.accessMode", f"{storage.access_mode}: its claim has {has}, which never changes; {advice}"
        )
    yield from _resized(f"{path}.size", storage.spec.size, live, found)


def _resized(path: str, size: str, live: LiveClaim, found: Volumes) -> Iterator[Problem]:
    """Refuse to shrink, and to grow what cannot; a growth that never came true may be taken back."""
    wanted, has = quantity(size), quantity(live.size)
    if wanted == has:
        return
    if live.capacity is None:
        advice = f"say {live.size} until a pod has mounted it, or delete the claim, which holds nothing yet"
        yield Problem(path, f"{size}: its claim asks for {live.size}, is not bound, and cannot change so; {advice}")
    elif wanted < has and wanted <= quantity(live.capacity):
        yield Problem(
            path, f"{size} is less than the {live.size} that its claim has; volumes only grow: {_least(live)}"
        )
    elif wanted > has and (reason := _rigid(live, found)):
        advice = f"say {live.size} again, {ANOTHER}"
        yield Problem(path, f"{size}: its claim has {live.size} and cannot grow, since {reason}; {advice}")


def _least(live: LiveClaim) -> str:
    """Say which size may stand there."""
    if live.capacity and quantity(live.capacity) < quantity(live.size):
        return f"it has {live.capacity} still, and may ask for anything above that, {ANOTHER}"
    return f"say {live.size} or more, {ANOTHER}"


def _rigid(live: LiveClaim, found: Volumes) -> str | None:
    """Say why a claim cannot grow; None where it can, and where nobody may know."""
    if not live.storage_class:
        return "it has no storage class"
    if found.classes is None:
        return None
    known: VolumeClass | None = found.classes.get(live.storage_class)
    if known is None:
        return f"its class {live.storage_class} is gone"
    return None if known.expands else f"its class {known.name} does not say allowVolumeExpansion: true"
