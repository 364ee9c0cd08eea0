"""docs/coverage.md: everything is in it, and what it names exists."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from stacks.schema import StackConfig

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "coverage.md").read_text()

SECTIONS = (
    *(f"1.{n}" for n in range(1, 9)),
    *(f"2.{n}" for n in range(1, 4)),
    *("3", "4.1", "4.2", "5", "6", "7.1", "7.2", "7.3"),
    *(f"8.{n}" for n in range(1, 8)),
)
POINTS = (*(f"S{n}" for n in range(1, 21)), *(f"R{n}" for n in range(1, 24)), *(f"O{n}" for n in range(1, 8)))

ISSUES = ("GPUUnit and the frps tier", "GPUStorage, its browser and the proxy", "later")
"""What later work is called."""

REFERENCE = re.compile(r"`(key|test|code|adr|file): ([^`]+)`")
NOT_YET = re.compile(r"not yet \(issue: ([^)]+)\)")


def rows() -> Iterator[tuple[str, ...]]:
    """Yield the cells of every table row that is neither head nor line."""
    table = False
    for line in TEXT.splitlines():
        if not line.startswith("|"):
            table = False
        elif set(line) <= set("|- "):
            table = True
        elif table:
            yield tuple(cell.strip() for cell in line.strip("|").split("|"))


def references(kind: str) -> list[str]:
    """List what the document refers to as *kind*."""
    return sorted({name for found, name in REFERENCE.findall(TEXT) if found == kind})


def accepts(key: str) -> bool:
    """Say whether a stack file may say *key*: ``*`` is any name, ``[]`` any item."""
    here: Any = StackConfig
    for part in key.replace("[]", ".[]").split("."):
        here = below(here, part)
    return here is not None


def below(annotation: Any, part: str) -> Any:
    """Step from a type to what lies at *part* of it; None when there is nothing."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = {field.alias or name: field.annotation for name, field in annotation.model_fields.items()}
        return fields.get(part)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is dict:
        return inner[1] if part == "*" else None
    if origin is tuple:
        return inner[0] if part == "[]" else None
    return next((found for option in inner if (found := below(option, part)) is not None), None)


@cache
def functions_in(path: str) -> frozenset[str]:
    """Name the functions of a file, without importing it."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    return frozenset(node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef))


def exists(dotted: str) -> bool:
    """Say whether a module has the attribute, however deep, or is itself what is named."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            found = getattr(found, name, None)
        return found is not None
    return False


@pytest.mark.parametrize("key", references("key"))
def test_keys_are_accepted(key: str) -> None:
    """A key that the document names is one that a stack file may say."""
    assert accepts(key)


@pytest.mark.parametrize("name", references("test"))
def test_tests_exist(name: str) -> None:
    """A test that the document names is there."""
    path, _, function = name.partition("::")

    assert function in functions_in(path)


@pytest.mark.parametrize("name", references("code"))
def test_code_exists(name: str) -> None:
    """A constant, function or class that the document names can be imported."""
    assert exists(name)


@pytest.mark.parametrize("number", references("adr"))
def test_decisions_exist(number: str) -> None:
    """A decision that the document names is there."""
    assert list((ROOT / "docs" / "adr").glob(f"{number}-*.md"))


@pytest.mark.parametrize("path", references("file"))
def test_files_exist(path: str) -> None:
    """A file that the document names is there."""
    assert (ROOT / path).is_file()


def test_every_section_is_there() -> None:
    """No part of the behaviour is left out."""
    headings = re.findall(r"^#+ (\d(?:\.\d)?) ", TEXT, re.MULTILINE)

    assert sorted(headings) == sorted(SECTIONS)


def test_every_weak_point_is_there() -> None:
    """Each weak point has exactly one row."""
    found = [cells[0] for cells in rows() if re.fullmatch(r"[SRO]\d+", cells[0])]

    assert sorted(found) == sorted(POINTS)


def test_every_row_says_where_it_stands() -> None:
    """A row names something of ours, or says which later work brings it."""
    silent = [cells for cells in rows() if not REFERENCE.search(cells[-1]) and not NOT_YET.search(cells[-1])]

    assert silent == []


def test_no_reference_is_misspelt() -> None:
    """Whatever looks like a reference is one: a mistyped prefix would be checked by nobody."""
    odd = [text for text in re.findall(r"`(\w+: [^`]+)`", TEXT) if not REFERENCE.fullmatch(f"`{text}`")]
    unknown = {title for title in NOT_YET.findall(TEXT) if title not in ISSUES}

    assert (odd, unknown) == ([], set())


@pytest.mark.parametrize("key", ["tenants.*.units.*.flavour", "tenants.units", "tenants.*.units.*.ports.name", "stock"])
def test_a_wrong_key_is_found(key: str) -> None:
    """The reader of keys refuses what a stack file may not say."""
    assert not accepts(key)


@pytest.mark.parametrize("name", ["components.gpu_unit.GPUnit", "components.nothing", "nothing.at.all"])
def test_a_wrong_name_is_found(name: str) -> None:
    """The reader of code refuses what is not there."""
    assert not exists(name)
