"""Problems of a stack file: each says where, what, and what would be right; all are found at once."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

import pulumi
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import override

from components.names import PROJECT

Raw = Mapping[str, Any]
"""A stack file's values below ``gpu-runtime:``, as YAML gives them."""

ModelT = TypeVar("ModelT", bound=BaseModel)

SHOWN = 60
"""Characters of a refused value; more only hides the sentence."""

HIDDEN = frozenset({"secret", "previousSecret", "env"})
"""Keys below which a value may be a secret: it is never shown."""


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong with a stack file."""

    path: str
    message: str

    @override
    def __str__(self) -> str:
        return f"{PROJECT}:{self.path}: {self.message}"


class RefusedError(pulumi.RunError):
    """A stack file, or what it meets in the cluster, is refused; nothing was registered. Shown without a traceback."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        many = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        super().__init__("\n".join((f"the stack is refused ({many}):", *(f"  - {p}" for p in sorted(set(problems))))))


def structural(model: type[BaseModel], raw: Raw) -> Iterator[Problem]:
    """Yield what the types of *model* say against *raw*."""
    try:
        model.model_validate(raw)
    except ValidationError as error:
        for details in error.errors():
            yield Problem(_path(details["loc"]), _message(model, details))


def valid(model: type[ModelT], raw: object) -> ModelT | None:
    """Parse *raw*, or give None where its own problems are reported elsewhere."""
    try:
        return model.model_validate(raw)
    except ValidationError:
        return None


def _path(location: tuple[int | str, ...]) -> str:
    """Write a location as people read YAML; tags of unions and pydantic's own words are no keys."""
    keys = [part for part in location if part != "[key]"]
    return ".".join(str(key) for key in keys)


def _message(model: type[BaseModel], details: ErrorDetails) -> str:
    location, kind = details["loc"], details["type"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return f"is no key of this release; {_advice(model, location)}"
    said = details["msg"].removeprefix("Value error, ")
    return said if HIDDEN & set(location) else f"{_shown(details['input'])}: {said}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _advice(model: type[BaseModel], location: tuple[int | str, ...]) -> str:
    """Suggest the nearest key, or list those that may stand there."""
    known = sorted(_keys(model, location[:-1]))
    near = difflib.get_close_matches(str(location[-1]), known, 1)
    return f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"


def _keys(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    here: Any = model
    for key in location:
        here = _below(here, key)
    return [field.alias or name for name, field in here.model_fields.items()] if _is_model(here) else []


def _below(kind: Any, key: int | str) -> Any:
    """Step to what lies below field *key*; a name in a table of models stays at that model."""
    fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items()} if kind else {}
    return _inner(fields[key]) if key in fields else kind


def _inner(annotation: Any) -> Any:
    """Look through optionals, dicts and tuples for the model in *annotation*."""
    if _is_model(annotation):
        return annotation
    return next((found for part in get_args(annotation) if _is_model(found := _inner(part))), None)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
