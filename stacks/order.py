"""In which order units and storages are made: what is filled comes before who uses it, who must rest before both."""

from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter

from components.gpu_unit import Unit
from components.storage_spec import Storage

Key = tuple[str, str]
"""Kind and alias: a unit and a storage may share a name."""


def _unit_key(alias: str) -> Key:
    """Name a unit."""
    return "unit", alias


def in_order(
    units: Mapping[str, Unit], storages: Mapping[str, Storage]
) -> Iterator[tuple[Key, Unit | Storage, list[Key]]]:
    """Yield each unit and storage after all that it needs, with the keys of these.

    A unit that runs waits for its storages. One at rest starts nothing: its storages wait for it instead, so that it
    has been told to stop when they are filled anew. A copy waits for its source.
    """
    parts: dict[Key, Unit | Storage] = {_unit_key(alias): unit for alias, unit in units.items()}
    parts |= {_storage_key(alias): storage for alias, storage in storages.items()}
    before = {key: list(_before(part)) for key, part in parts.items()}
    for key in TopologicalSorter(before).static_order():
        yield key, parts[key], before[key]


def _storage_key(alias: str) -> Key:
    return "storage", alias


def _before(part: Unit | Storage) -> Iterator[Key]:
    if isinstance(part, Storage):
        yield from (_unit_key(f"{unit}.{part.tenant}") for unit in part.resting)
        yield from (_storage_key(f"{name}.{part.tenant}") for name in ([part.source.name] if part.source else ()))
    elif part.spec.running:
        yield from (_storage_key(f"{name}.{part.tenant}") for name in dict.fromkeys(part.spec.storages))
