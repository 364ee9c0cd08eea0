"""Say in a stack file whether a unit runs, and touch nothing else in it: what is around stays, to the byte."""

import copy
import os
import tempfile
from pathlib import Path
from typing import Any

import yaml

from components.names import PROJECT
from tools.shell import ToolError
from tools.stack.local import template
from tools.stack.workspace import Config
from tools.units import named

TENANTS = f"{PROJECT}:tenants"


def declare(path: Path, alias: str, *, running: bool) -> bool:
    """Write into the stack file *path* that the unit *alias* runs or not; False where it says so already.

    The file is replaced whole or not at all. Raises ToolError for an unknown unit and a file that cannot be edited.
    """
    config = template(path)
    named.demand(alias, aliases(config), path.name)
    text = path.read_bytes().decode()
    changed = with_running(text, alias, running=running)
    if changed == text:
        return False
    if yaml.safe_load(changed) != _expected(text, alias, running=running):
        value = str(running).lower()
        raise ToolError(f"{path}: {alias} shares its lines with others; write `running: {value}` into it by hand")
    _rewrite(path.resolve(), changed)
    return True


def aliases(config: Config) -> list[str]:
    """Name the units of a stack file; what is of another shape has none."""
    tenants = _table(config.get(TENANTS))
    return [f"{unit}.{tenant}" for tenant, said in tenants.items() for unit in _table(_table(said).get("units"))]


def with_running(text: str, alias: str, *, running: bool) -> str:
    """Give the text of a stack file in which the unit *alias* says whether it runs."""
    unit, _, tenant = alias.partition(".")
    node = yaml.compose(text)
    for key in ("config", TENANTS, tenant, "units", unit):
        node = _below(node, key)
    if not isinstance(node, yaml.MappingNode) or not node.value:
        raise ToolError(f"unit {alias} says nothing: it needs a flavor and an image")
    value = str(running).lower()
    if (said := _below(node, "running")) is not None:
        return f"{text[: said.start_mark.index]}{value}{text[said.end_mark.index :]}"
    if running:
        return text  # as without a word
    first = node.value[0][0].start_mark
    newline = "\r\n" if "\r\n" in text else "\n"
    after = ", " if node.flow_style else newline + " " * first.column
    return f"{text[: first.index]}running: {value}{after}{text[first.index :]}"


def _below(node: yaml.Node | None, key: str) -> Any:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for name, value in pairs if name.value == key), None)


def _expected(text: str, alias: str, *, running: bool) -> object:
    unit, _, tenant = alias.partition(".")
    said = copy.deepcopy(yaml.safe_load(text))
    before = said["config"][TENANTS][tenant]["units"]
    said["config"][TENANTS][tenant]["units"] = {**before, unit: {**before[unit], "running": running}}
    return said


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rewrite(path: Path, text: str) -> None:
    """Replace a file by another with the same rights, at no moment half."""
    mode = path.stat().st_mode
    descriptor, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        Path(fresh).chmod(mode)
        Path(fresh).replace(path)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
