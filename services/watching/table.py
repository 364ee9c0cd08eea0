"""What is kept of the cluster's objects of one kind, as the API server said last."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from watching.api_server import Kind

Key = tuple[str, str]
"""Namespace, empty for a kind that has none, and name."""

KnownT = TypeVar("KnownT")


@dataclass
class Table(Generic[KnownT]):
    """Objects of one kind; a change swaps the whole mapping, so that a reader in another thread sees one state."""

    kind: Kind
    read: Callable[[Mapping[str, Any]], KnownT | None]
    """Makes of an object what is kept of it; None: it is not one of ours."""
    known: Mapping[Key, KnownT] | None = None
    """None: nobody has said yet what there is. The same mapping as before: nothing has changed."""

    def replace(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Take *objects* for all that there are."""
        found = {key: known for key, known in map(self._entry, objects) if known is not None}
        if found != self.known:
            self.known = found

    def change(self, what: str, thing: Mapping[str, Any]) -> None:
        """Take one event of a watch: ADDED, MODIFIED or DELETED."""
        before = self.known or {}
        key, known = self._entry(thing)
        now = None if what == "DELETED" else known
        if before.get(key) == now:
            return
        changed = dict(before)
        if now is None:
            del changed[key]
        else:
            changed[key] = now
        self.known = changed

    def _entry(self, thing: Mapping[str, Any]) -> tuple[Key, KnownT | None]:
        """Read an object; what is being deleted counts as gone."""
        meta = table(thing.get("metadata"))
        key = (str(meta.get("namespace") or ""), str(meta.get("name")))
        return key, None if meta.get("deletionTimestamp") else self.read(thing)


def table(value: object) -> Mapping[str, Any]:
    """Give *value* where it is a table, an empty one where it is anything else."""
    return value if isinstance(value, Mapping) else {}


def words(value: object) -> Mapping[str, str]:
    """Give what is text in a table such as labels or annotations."""
    return {key: said for key, said in table(value).items() if isinstance(said, str)}
