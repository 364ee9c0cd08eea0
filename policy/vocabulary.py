"""Know every field of every built-in kind, so that a misspelt one is refused and not dropped by the API server.

`fields.json` is made from the models of the lightkube-models package in requirements.lock, by
`python -m policy.vocabulary`. The pack reads the file because importing the models costs half a second at each start.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Final, NamedTuple

from policy.field import Field

FILE: Final = Path(__file__).with_name("fields.json")
LEGACY: Final = {"extensions": "apps", "apps": "apps", "batch": "batch"}
"""Groups whose old versions carried pods too -> the group where their kinds live now."""

Types = Mapping[str, Mapping[str, str]]


@cache
def vocabulary() -> tuple[Mapping[str, str], Types]:
    """Return kind (`apps/v1/Deployment`) -> its type, and type -> field -> type of the field, empty for a leaf."""
    said = json.loads(FILE.read_text())
    return said["kinds"], said["types"]


def type_of(api_version: str, kind: str) -> str | None:
    """Return the type of a built-in kind; None for any other kind. Versions from before v1 count as v1."""
    kinds = vocabulary()[0]
    group = LEGACY.get(api_version.partition("/")[0], "")
    return kinds.get(f"{api_version}/{kind}") or kinds.get(f"{group}/v1/{kind}")


class Oddity(NamedTuple):
    """A key that *type_name* does not have, or, where *is_key* is false, a value that is no *type_name* at all."""

    field: Field
    type_name: str
    is_key: bool


def oddities(field: Field, type_name: str) -> Iterator[Oddity]:
    """Yield every key below *field* that its type does not have, and every part that is not known or no object."""
    known = vocabulary()[1][type_name]
    if type(field.value) is list:
        for item in field.each():
            yield from oddities(item, type_name)
    elif type(field.value) is dict:
        for key, value in field.value.items():
            kind = known.get(key)
            if kind is None:
                yield Oddity(Field(value, field, key), type_name, is_key=True)
            elif kind and value is not None:
                yield from oddities(Field(value, field, key), kind)
    elif field.value is not None:
        yield Oddity(field, type_name, is_key=False)


def meant(key: str, type_name: str) -> str:
    """Return the field of *type_name* that *key* resembles; empty when it resembles none."""
    bare = {_bare(name): name for name in vocabulary()[1][type_name]}
    close = get_close_matches(_bare(key), bare, n=1, cutoff=0.8)
    return bare[close[0]] if close else ""


def _bare(key: str) -> str:
    return key.replace("_", "").replace("-", "").lower()


def generated() -> dict[str, Any]:
    """Return the content of `fields.json` as the installed models say it; only stable versions."""
    kinds: dict[str, str] = {}
    types: dict[str, dict[str, str]] = {}
    for module in _modules():
        for resource in vars(module).values():
            info = getattr(resource, "_api_info", None)
            if info is not None and info.action is None:
                model = next(base for base in resource.__mro__ if base.__module__.startswith("lightkube.models."))
                api_version = "/".join(filter(None, (info.resource.group, info.resource.version)))
                kinds[f"{api_version}/{info.resource.kind}"] = _collect(model, types)
    return {"kinds": dict(sorted(kinds.items())), "types": dict(sorted(types.items()))}


def _modules() -> Iterator[Any]:
    package = import_module("lightkube.resources")
    for module in iter_modules(package.__path__):
        if re.search(r"_v\d+$", module.name):
            yield import_module(f"lightkube.resources.{module.name}")


def _collect(model: Any, types: dict[str, dict[str, str]]) -> str:
    name = f"{model.__module__.rpartition('.')[2]}.{model.__name__}"
    if name not in types:
        types[name] = {}
        for python_name, said in zip(model.__struct_fields__, model.__struct_encode_fields__, strict=True):
            target = _model(model.__module__, model.__annotations__[python_name])
            types[name][said] = _collect(target, types) if target else ""
    return name


def _model(module: str, annotation: str) -> Any:
    """Return the model that an annotation like `Optional[List[meta_v1.ObjectMeta]]` speaks of, None for a leaf."""
    inner = annotation.replace("Optional[", "").replace("List[", "").rstrip("]")
    home, _, name = inner.rpartition(".")
    found = getattr(import_module(f"lightkube.models.{home}" if home else module), name, None)
    return found if hasattr(found, "__struct_fields__") else None


def text(content: Mapping[str, Any]) -> str:
    """Return *content* as JSON with one line for each kind and type, for readable diffs."""
    parts = []
    for section, entries in content.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
        parts.append(f" {json.dumps(section)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(generated()))
    sys.stderr.write(f"wrote {FILE}\n")
