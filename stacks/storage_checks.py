"""Problems of one storage that its own values show together, or with the flavors and units of its stack."""

from collections.abc import Collection, Iterator, Mapping

from components.storage_placement import PlacementSpec
from components.storage_spec import StorageSpec
from components.unit_spec import UnitSpec
from stacks.flavor_checks import toleration_problems
from stacks.problems import Problem


def placement_problems(
    path: str, said: PlacementSpec, flavors: Collection[str], gpu_taints: Collection[str]
) -> Iterator[Problem]:
    """Yield the problems of a placement written at *path*."""
    if said.flavor is not None and (said.node_selector or said.tolerations):
        yield Problem(path, "names a flavor and nodes; the flavor's nodes are meant, or the others: remove one")
    if said.flavor is not None and said.flavor not in flavors:
        known = ", ".join(sorted(flavors)) or "none"
        yield Problem(f"{path}.flavor", f"{said.flavor!r} is no flavor of this stack, which has {known}")
    for index, toleration in enumerate(said.tolerations):
        yield from toleration_problems(f"{path}.tolerations.{index}", toleration, gpu_taints)


def sharing_problems(
    path: str, storages: Mapping[str, StorageSpec | None], units: Mapping[str, UnitSpec], default: str
) -> Iterator[Problem]:
    """Refuse a second unit on a volume that one node at a time can mount; readers and units at rest count."""
    users: dict[str, list[str]] = {}
    for name, unit in units.items():
        for storage in dict.fromkeys(unit.storages):
            users.setdefault(storage, []).append(name)
    for storage, who in users.items():
        spec = storages.get(storage)
        if spec is not None and len(who) > 1 and (spec.access_mode or default) == "ReadWriteOnce":
            yield Problem(
                f"{path}.{storage}",
                f"is ReadWriteOnce, but units {', '.join(who)} mount it; one may, "
                "or set accessMode to ReadWriteMany or ReadOnlyMany",
            )
