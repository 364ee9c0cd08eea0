"""The shape of the code: imports point one way, and nothing is forgotten in a list."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ALLOWED = {
    "components": {"components", "policy.baseline", "status"},
    "stacks": {"stacks", "components"},
    "policy": {"policy"},
    "services/entrance": {"entrance"},
    "services/gate": {"gate", "watching"},
    "services/prepare": {"prepare"},
    "services/probe": {"probe"},
    "services/proxy": {"proxy"},
    "services/routes": {"routes", "watching"},
    "services/status": {"status"},
    "services/tunnel": {"tunnel"},
    "services/watching": {"watching"},
}
"""Folder to the parts of ours that it may import; only the program itself sees all of them."""

SERVICES = [folder.removeprefix("services/") for folder in ALLOWED if folder.startswith("services/")]

OURS = ("components", "stacks", "policy", "services", "tools", *SERVICES)

LONGEST_FILE = 260
LONGEST_FUNCTION = 60


def modules(folder: str) -> list[Path]:
    """List the Python files of a folder."""
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


def imports(path: Path) -> Iterator[str]:
    """Yield the dotted names that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", ALLOWED)
def test_imports_point_one_way(folder: str) -> None:
    """Stacks see components, components see the law's baseline, the law and the services see nothing of ours."""
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(folder)
        for name in imports(path)
        if name.split(".")[0] in OURS
        and not any(name == allowed or name.startswith(f"{allowed}.") for allowed in ALLOWED[folder])
    }

    assert wrong == set()


def test_services_know_nothing_of_pulumi() -> None:
    """A service runs in a small image, with Python's standard library and what its recipe names."""
    found = {name for path in modules("services") for name in imports(path) if name.startswith("pulumi")}

    assert found == set()


def test_the_program_is_a_picture() -> None:
    """`__main__.py` fits a screen."""
    assert len((ROOT / "__main__.py").read_text().splitlines()) <= 60


@pytest.mark.parametrize("folder", ["components", "stacks", "policy", "services", "tools"])
def test_files_and_functions_stay_readable(folder: str) -> None:
    """No file is a drawer for everything, and no function longer than a screen."""
    long_files = {
        str(path.relative_to(ROOT)) for path in modules(folder) if len(path.read_text().splitlines()) > LONGEST_FILE
    }
    long_functions = {
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in modules(folder)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION
    }

    assert (long_files, long_functions) == (set(), set())
