"""A value inside an object, with the path to it: every check reads through this, so that none forgets the unknown."""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from policy.plain import UNKNOWN

SAID_LENGTH: Final = 60
"""A message quotes this much of a value: enough to find it, too little to fill the screen."""


class Finding(NamedTuple):
    """What a check found: where in the object, and what would be right."""

    path: str
    message: str


class Field:
    """One value at one path: None where the object says nothing, UNKNOWN where nobody knows or the shape is wrong."""

    __slots__ = ("key", "parent", "value")

    def __init__(self, value: Any, parent: "Field | None" = None, key: str | int = "") -> None:
        self.value = value
        self.parent = parent
        self.key = key

    def __getitem__(self, key: str) -> "Field":
        value = self.value
        if type(value) is dict:
            return Field(value.get(key), self, key)
        return Field(None if value is None else UNKNOWN, self, key)

    def at(self, *keys: str) -> "Field":
        """Return the field under *keys*, one below the other."""
        field = self
        for key in keys:
            field = field[key]
        return field

    def each(self) -> Iterator["Field"]:
        """Yield the elements of a list; what is no list counts as one element that nobody knows."""
        if type(self.value) is list:
            for index, value in enumerate(self.value):
                yield Field(value, self, index)
        elif self.value is not None:
            yield Field(UNKNOWN, self, "*")

    def pairs(self) -> Iterator[tuple[str, "Field"]]:
        """Yield key and value of a mapping; what is no mapping counts as one value that nobody knows."""
        if type(self.value) is dict:
            for key, value in self.value.items():
                yield key, Field(value, self, key)
        elif self.value is not None:
            yield "*", Field(UNKNOWN, self, "*")

    @property
    def path(self) -> str:
        """Return the path as one writes it: `spec.containers[0].resources.limits["nvidia.com/gpu"]`."""
        if self.parent is None:
            return str(self.key)
        above = self.parent.path
        if isinstance(self.key, int) or self.key == "*":
            return f"{above}[{self.key}]"
        if not self.key.replace("_", "").replace("-", "").isalnum():
            return f"{above}[{json.dumps(self.key)}]"
        return f"{above}.{self.key}" if above else self.key

    @property
    def said(self) -> str:
        """Return the value as a message quotes it."""
        if self.value is None:
            return "not set"
        if self.value is UNKNOWN:
            return "not known before the deployment, or malformed"
        text = json.dumps(self.value, default=str)
        return text if len(text) <= SAID_LENGTH else f"{text[:SAID_LENGTH]}..."

    def refuse(self, who: str, advice: str) -> Finding:
        """Return the finding that *who* has the wrong value here, and *advice* on what would be right."""
        above = self.parent.key if self.parent else ""
        name = f"{above}.{self.key}" if isinstance(above, str) and above else self.key
        return Finding(self.path, f"{who}: {name} is {self.said}; {advice}")
