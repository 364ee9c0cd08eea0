"""Whole numbers of a stack file: YAML's truth values are none."""

from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from stacks.load import parse
from stacks.schema import StackConfig
from tests.stack_files import ENCRYPTED, STACKS, raw


def numbers(annotation: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield path and type of every whole number of the models in *annotation*."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            said = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
            yield from numbers(said, f"{path}.{field.alias or name}")
    elif annotation is int or (get_origin(annotation) is Annotated and int in _options(get_args(annotation)[0])):
        yield path.removeprefix("."), annotation
    else:
        for inner in get_args(annotation):
            yield from numbers(inner, path)


def _options(annotation: Any) -> tuple[Any, ...]:
    return (annotation, *get_args(annotation))


NUMBERS = dict(numbers(StackConfig))


def test_numbers_are_found() -> None:
    """Those of tables, lists and optional values are among them, so that the next test leaves none out."""
    deep = {"epoch", "platform.ssh.replicas", "platform.ssh.connect.port", "platform.ssh.limits.tunnel.total"}

    assert deep | {"cluster.dns.ports", "flavors.resources", "tenants.quota.gpus"} <= set(NUMBERS)


@pytest.mark.parametrize("path", NUMBERS)
def test_true_is_no_number(path: str) -> None:
    """Python takes it for 1."""
    with pytest.raises(ValidationError):
        TypeAdapter(NUMBERS[path]).validate_python(True)  # noqa: FBT003 - the value in question


def test_the_engines_text_is_a_number() -> None:
    """The engine hands a scalar of the top level over as text."""
    assert parse({**raw(STACKS / "Pulumi.prod.yaml"), "epoch": "3"}, ENCRYPTED).epoch == 3
