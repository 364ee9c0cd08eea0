"""In which states a stack's storages are, as `make status` tells them, also on the way."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from status.storage_states import StorageState

from e2e.world import World
from tools.stack.reading import read_file
from tools.status.storage_rows import storage_rows, storage_table

LOOK_SECONDS = 0.3
"""Between two looks: the shortest state that is waited for here lasts seconds."""

States = Mapping[str, StorageState]
T = TypeVar("T")


def states(world: World) -> dict[str, StorageState]:
    """Give the state of each storage of the stack as its file is now."""
    stack = read_file(world.workspace.config_file, world.workspace.stack)
    found = list(storage_rows(world.cluster, stack))
    assert all(row.storage in storage_table(found) for row in found)
    return {row.storage: row.state for row in found}


def during(
    world: World, run: Callable[[], T], look: Callable[[States], object] = lambda _: None
) -> tuple[T, dict[str, list[StorageState]]]:
    """Do *run*, and *look* at the states again and again meanwhile; give its result, and each state of each storage."""
    seen: dict[str, list[StorageState]] = {}
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(run)
        while not result.done():
            now = states(world)
            for name, state in now.items():
                known = seen.setdefault(name, [])
                known += [state] if state not in known else []
            look(now)
            wait([result], timeout=LOOK_SECONDS)
    return result.result(), seen
