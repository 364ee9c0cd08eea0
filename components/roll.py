"""Say, in the preview, which tunnel servers a change replaces, and what that means for who is logged in."""

from functools import cache

import pulumi

from components.frps_pod import drain_of
from components.model import Manifest


def notice(name: str, old: Manifest, new: Manifest) -> str | None:
    """Say what the update of a tunnel server's Deployment does to sessions; None where it replaces no pod."""
    if old["spec"]["template"] == new["spec"]["template"]:
        return None
    return (
        f"tunnel server {name} is replaced: sessions through it end when they are done, or after {drain_of(old)} s; "
        "new logins go through the others meanwhile"
    )


def _say(args: pulumi.ResourceHookArgs) -> None:
    name = args.name.removeprefix("tunnel-")
    if said := notice(name, dict(args.old_inputs or {}), dict(args.new_inputs or {})):
        pulumi.log.warn(said)


@cache
def _hook_of(_monitor: object) -> pulumi.ResourceHook:
    return pulumi.ResourceHook("say-roll", _say, pulumi.ResourceHookOptions(on_dry_run=True))


def say_roll() -> pulumi.ResourceHook:
    """Give the hook for ``before_update`` of a tunnel server's Deployment: one for the whole program."""
    return _hook_of(pulumi.runtime.settings.get_monitor())
