"""What may fill a storage: an image that there is, a storage that is filled before, by the same user."""

from collections.abc import Iterator, Mapping

from components.prepare_spec import StoragePrepare
from components.storage_spec import StorageSpec
from stacks.problems import Problem

Storages = Mapping[str, StorageSpec | None]
"""By name; None for one that is refused by itself."""


def copy_problems(path: str, name: str, storages: Storages) -> Iterator[Problem]:
    """Yield the problems of storage *name*, written at *path*, as a copy of another one of *storages*."""
    spec = storages[name]
    if spec is None or not isinstance(spec.prepare, StoragePrepare):
        return
    at, wanted = f"{path}.prepare.from", spec.prepare.source
    if wanted not in storages:
        known = ", ".join(sorted(set(storages) - {name})) or "none beside this"
        yield Problem(at, f"{wanted!r} is none of the tenant's storages: {known}")
        return
    if circle := _circle(name, storages):
        yield Problem(at, f"copies go in a circle: {' from '.join(circle)}; fill one of them another way")
        return
    if (source := storages[wanted]) is not None:
        yield from _source_problems(path, spec, source, wanted)


def _source_problems(path: str, spec: StorageSpec, source: StorageSpec, wanted: str) -> Iterator[Problem]:
    said = spec.prepare
    if not isinstance(said, StoragePrepare):
        return
    if source.prepare is None and not said.filled:
        yield Problem(
            f"{path}.prepare.from",
            f"storage {wanted} has no `prepare`, so that nobody knows when it is filled; give it one, "
            "or say `filled: true` beside `from` when its units have filled it",
        )
    if source.prepare is not None and said.filled:
        yield Problem(
            f"{path}.prepare.filled", f"storage {wanted} has a `prepare`, which is waited for; remove this key"
        )
    if source.run_as != spec.run_as:
        yield Problem(
            f"{path}.runAs",
            f"is {spec.run_as}, but the storage {wanted} that it is copied from is owned by {source.run_as}; "
            "give both the same, since a copy reads and writes as that user",
        )


def _circle(name: str, storages: Storages) -> list[str]:
    """Follow the sources from *name*; give the way back to it, empty where there is none."""
    way, here = [name], _source(storages.get(name))
    while here is not None and here not in way:
        way.append(here)
        here = _source(storages.get(here))
    return [*way, name] if here == name else []


def _source(spec: StorageSpec | None) -> str | None:
    return spec.prepare.source if spec and isinstance(spec.prepare, StoragePrepare) else None
