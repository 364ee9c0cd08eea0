"""Turn whatever holds an object (dicts, the engine's proxies, Pulumi inputs) into plain data with a third value."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

MAX_DEPTH: Final = 100
"""Kubernetes' own objects stay below 40 levels; what is deeper is not read, and what is not read is unknown."""


class Unknown(Enum):
    """A value nobody knows before the deployment; the law treats it as a violation wherever it matters."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN
_LEAVES: Final = frozenset({str, int, bool, type(None), Unknown})


def plain(value: Any, depth: int = 0) -> Any:
    """Return *value* as dicts, lists, strings, numbers, booleans and None; anything else in it becomes UNKNOWN."""
    if type(value) in _LEAVES:
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if depth > MAX_DEPTH:
        return UNKNOWN
    if isinstance(value, Mapping):
        return {str(key): plain(child, depth + 1) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(child, depth + 1) for child in value]
    return str(value) if isinstance(value, str) else UNKNOWN
