"""Refuse, in the preview, a change that would replace a running unit's pod, unless the operator asked for it.

The refusal is a resource hook of the program, so that a bare ``pulumi up`` has it too.
"""

import os
from collections.abc import Iterable, Iterator
from functools import cache

import pulumi

from components.model import Manifest
from components.wording import shortened

RESTART = "RESTART"
"""Environment variable that names the units that may restart: ``trainer.lab-a,notebook.lab-b`` or ``all``."""

MAX_FIELDS = 12
"""More differing fields than anybody reads in a refusal."""


def differences(old: object, new: object, path: str = "") -> Iterator[str]:
    """Yield the paths at which two plain values differ; an item of a named list goes by its name."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(old, list) and isinstance(new, list) and _named(old) and _named(new):
        yield from differences(_by_name(old), _by_name(new), path)
        if [item["name"] for item in old] != [item["name"] for item in new]:
            yield f"{path} (order)"
    elif old != new:
        yield path


def _named(items: list[object]) -> bool:
    return all(isinstance(item, dict) and "name" in item for item in items)


def _by_name(items: list[Manifest]) -> Manifest:
    return {str(item["name"]): item for item in items}


def may_restart(alias: str, allowed: str) -> bool:
    """Say whether *allowed*, the value of ``RESTART``, names the unit ``<unit>.<tenant>`` or its bare name."""
    return bool(_names(allowed) & {"all", alias, _bare(alias)})


def _names(allowed: str) -> set[str]:
    return {name.strip() for name in allowed.split(",")}


def _bare(alias: str) -> str:
    return alias.partition(".")[0]


def demand_clear(aliases: Iterable[str], allowed: str | None = None) -> None:
    """Refuse bare names in *allowed*, by default the value of ``RESTART``, that several of *aliases* have.

    Raises pulumi.RunError: nobody should end the work in a unit that they did not think of.
    """
    known = sorted(aliases)
    for name in sorted(_names(os.environ.get(RESTART, "") if allowed is None else allowed)):
        meant = [alias for alias in known if _bare(alias) == name]
        if len(meant) > 1:
            raise pulumi.RunError(f"{RESTART}={name} may mean {shortened(meant, MAX_FIELDS)}: say <unit>.<tenant>")


def refusal(alias: str, old: Manifest, new: Manifest, allowed: str) -> str | None:
    """Say why the update of a unit's Deployment is refused, or None when it may go on.

    A unit that does not run, or shall not, has no work that a new template would end.
    """
    if 0 in (old["spec"].get("replicas"), new["spec"].get("replicas")):
        return None
    fields = list(dict.fromkeys(differences(old["spec"]["template"], new["spec"]["template"])))
    if not fields or may_restart(alias, allowed):
        return None
    return (
        f"unit {alias} would be restarted, and the work in it ended, by a change of its pod template: "
        f"{shortened(fields, MAX_FIELDS)}. "
        f"Allow it with {RESTART}={alias} (or {RESTART}=all) in the environment, or take the change back."
    )


def _guard(args: pulumi.ResourceHookArgs) -> None:
    alias = args.name.removesuffix("-deployment")
    old, new = args.old_inputs or {}, args.new_inputs or {}
    if reason := refusal(alias, dict(old), dict(new), os.environ.get(RESTART, "")):
        raise RuntimeError(reason)


@cache
def _guard_of(_monitor: object) -> pulumi.ResourceHook:
    return pulumi.ResourceHook("guard-pod-template", _guard, pulumi.ResourceHookOptions(on_dry_run=True))


def guard_template() -> pulumi.ResourceHook:
    """Give the hook for ``before_update`` of a unit's Deployment: one for the whole program."""
    return _guard_of(pulumi.runtime.settings.get_monitor())
