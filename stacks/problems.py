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

HIDDEN = frozenset(
    {
        "secret",
        "previousSecret",
        "serverToken",
        "platformKeys",
        "oidcClientSecret",
        "env",
        "secretEnv",
        "authorizedKeys",
        "userCa",
        "url",
    }
)
"""Keys below which a value may be a secret, such as a private key pasted by mistake: it is never shown."""

ADVICE = {
    "string_type": "must be text; put it in quotes",
    "bool_type": "must be true or false, without quotes",
    "dict_type": "must be a table of names",
    "model_type": "must be a table of keys",
    "model_attributes_type": "must be a table of keys",
    "tuple_type": "must be a list",
    "too_short": "must have at least one entry",
}
"""What pydantic says in Python's words, said in YAML's."""


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
        found = error.errors()
        places = [details["loc"] for details in found]
        for details in found:
            if not _follows(details, places):
                yield Problem(_path(details["loc"]), _message(model, details))


def table(value: object) -> Mapping[str, Any]:
    """Give *value* where it is a table, an empty one where it is anything else: its shape is another check's."""
    return value if isinstance(value, Mapping) else {}


def valid(model: type[ModelT], raw: object) -> ModelT | None:
    """Parse *raw* less the keys that are wrong by themselves and reported elsewhere; None where that leaves none."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        wrong = {details["loc"][0] for details in error.errors() if details["loc"]}
        sound = {key: value for key, value in raw.items() if key not in wrong} if isinstance(raw, Mapping) else raw
        return valid(model, sound) if wrong and sound != raw else None


def _follows(details: ErrorDetails, places: list[tuple[int | str, ...]]) -> bool:
    """Say whether a list only counts as too short because its items are refused, each by itself."""
    here = details["loc"]
    return details["type"] == "too_short" and any(place[: len(here)] == here != place for place in places)


def _path(location: tuple[int | str, ...]) -> str:
    """Write a location as people read YAML; tags of unions and pydantic's own words are no keys."""
    keys = [part for index, part in enumerate(location) if part != "[key]" and not _is_tag(location, index)]
    return ".".join(str(key) for key in keys)


def _is_tag(location: tuple[int | str, ...], index: int) -> bool:
    """Say whether a part of a location is the `kind` of a storage's `prepare`, which pydantic puts after that key."""
    return index > 2 and location[index - 3] == "storages" and location[index - 1] == "prepare"  # noqa: PLR2004


FILLED = {
    "too_long": "has {actual_length} entries; at most {max_length} are allowed",
    "union_tag_invalid": "has kind {tag!r}; {expected_tags} are known",
    "union_tag_not_found": "lacks the key {discriminator}, which says the way",
}
"""The same of what carries more than the value, which is not shown then: it may be large."""


def _message(model: type[BaseModel], details: ErrorDetails) -> str:
    location, kind = details["loc"], details["type"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return f"is no key of this release; {_advice(model, location)}"
    if filled := FILLED.get(kind):
        return filled.format(**details.get("ctx", {}))
    said = ADVICE.get(kind, details["msg"].removeprefix("Value error, "))
    return said if HIDDEN & set(location) else f"{_shown(details['input'])}: {said}"


def _shown(value: object) -> str:
    text = repr(value)
    if "PRIVATE KEY" in text:
        return "a private key"
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
    """Step to what lies below field *key*; a name in a table of models stays at that model, a tag chooses one."""
    if isinstance(kind, Mapping):
        return kind.get(str(key))
    fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items()} if kind else {}
    return _inner(fields[key]) if key in fields else kind


def _inner(annotation: Any) -> Any:
    """Look through optionals, dicts and tuples for the model in *annotation*, or the models of a union by their tag."""
    if _is_model(annotation):
        return annotation
    models = [part for part in get_args(annotation) if _is_model(part)]
    if len(models) > 1:
        return {get_args(model.model_fields["kind"].annotation)[0]: model for model in models}
    return next((found for part in get_args(annotation) if (found := _inner(part))), None)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
