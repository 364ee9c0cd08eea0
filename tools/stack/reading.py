"""Read a stack file without the engine: whatever is encrypted in it stays so, and a placeholder stands for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.names import PROJECT
from stacks.handover import completed
from stacks.load import SECRETS, parse
from stacks.problems import RefusedError
from stacks.resolve import Stack
from tools.shell import ToolError
from tools.stack.engine import REPOSITORY, Engine
from tools.stack.local import template
from tools.stack.workspace import LOCAL, Config, Workspace

PLACEHOLDER = "not-read-" * 8
"""Stands for a value that only the engine can decrypt; long enough for a stack's secret."""

NO_KEY = "0" * 64
"""The same for a key that a platform hands over."""


def read_stack(name: str) -> Stack:
    """Give the stack called *name* as the program would see it, every secret a placeholder; it need not be up.

    Raises ToolError where there is no such file, and with every problem that the program would refuse it for.
    """
    return read_file(stack_file(name), name)


def read_file(path: Path, name: str, environment: Mapping[str, str] | None = None) -> Stack:
    """Give the stack called *name* as the file at *path* has it; *environment* names its backend. Raises ToolError."""
    return stack_from(template(path), name, environment)


def stack_from(config: Config, name: str, environment: Mapping[str, str] | None = None) -> Stack:
    """Give the stack called *name* that *config* describes. Raises ToolError with every problem of it.

    Where its platform is another stack's, the backend is asked for what that one says in public, and nothing else.
    """
    prefix = f"{PROJECT}:"
    said = {key.removeprefix(prefix): value for key, value in config.items() if str(key).startswith(prefix)}
    later = {key: PLACEHOLDER for key in _needed(said) if key not in said}  # set by `pulumi config set --secret`
    encrypted = {*later, *(key for key in SECRETS if _is_encrypted(said.get(key)))}
    raw = {**later, **{key: _plain(value) for key, value in said.items()}}
    try:
        whole = completed(raw, name, lambda other: Engine(other, environment=dict(environment or {})).outputs())
        if "platformKeys" in whole:
            whole = {**whole, "platformKeys": {"key": NO_KEY, "token": PLACEHOLDER}}
        return Stack(parse(whole, {f"{PROJECT}:{key}" for key in (*encrypted, "platformKeys")}, name), owner=name)
    except RefusedError as error:
        raise ToolError(str(error)) from None


def stack_file(name: str) -> Path:
    """Give the file of a stack: of the local one what `make up` generated, for that one names the rig.

    Raises ToolError where there is none.
    """
    if name == LOCAL:
        workspace = Workspace()
        if not workspace.exists:
            raise ToolError("there is no local stack yet: run `make up` first")
        return workspace.config_file
    folder = REPOSITORY / "stacks"
    path = folder / f"Pulumi.{name}.yaml"
    if not path.exists():
        known = sorted(one.stem.removeprefix("Pulumi.") for one in folder.glob("Pulumi.*.yaml"))
        raise ToolError(f"there is no stacks/{path.name}; there are stacks {', '.join(known)}")
    return path


def _needed(said: dict[str, Any]) -> tuple[str, ...]:
    """Name the secrets without which the program refuses the file."""
    platform = said.get("platform")
    ssh = platform.get("ssh") if isinstance(platform, dict) else None
    server = ssh.get("server") if isinstance(ssh, dict) else None
    if server is None:
        return ("secret",)
    return "secret", "platformKeys" if isinstance(server, dict) and server.get("gate") is True else "serverToken"


def _plain(value: Any) -> Any:
    """Put the placeholder where something is encrypted, however deep."""
    if _is_encrypted(value):
        return PLACEHOLDER
    if isinstance(value, dict):
        return {key: _plain(below) for key, below in value.items()}
    return [_plain(below) for below in value] if isinstance(value, list) else value


def _is_encrypted(value: object) -> bool:
    return isinstance(value, dict) and set(value) == {"secure"}
