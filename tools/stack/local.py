"""The stack on a rig: everything from an empty machine to a login, and back to an empty machine."""

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from typing_extensions import override

from tools import images, toolchain
from tools.rig import Rig
from tools.rig.rig import Status
from tools.shell import ToolError, say
from tools.stack.client import wait_for_login, write_client_files
from tools.stack.engine import PACK, Engine
from tools.stack.overlay import overlay, table
from tools.stack.workspace import Config, Workspace, replace

if TYPE_CHECKING:
    from stacks.resolve import Stack

REFRESH = "REFRESH"
"""Environment variable: 1 has `up` ask the cluster first what became of each object."""

UNSETTLED = ("starting", "sick")
"""States of a rig that pass, most often: one slow answer of its API server is called sick."""

PATIENCE_SECONDS = 30
"""For a rig to pass from them."""

IMAGES = ("bundle", "entrance", "frp", "gate", "prepare", "probe", "python", "tunnel")
"""What the local stack runs."""


class Made(NamedTuple):
    """What `up` has made."""

    aliases: list[str]
    """Of the units that a login reaches."""
    stack: "Stack"
    outputs: dict[str, Any]


def up(workspace: Workspace, rig: Rig) -> Made:
    """Make or update everything.

    Raises ToolError when a step fails; what the earlier ones made stays, and the next run goes on from there.
    """
    started = time.monotonic()
    make_ready(workspace, rig)
    try:
        apply(workspace, rig)
    except ToolError:
        _write_what_is_there(workspace)
        raise
    stack = _prove(workspace)
    outputs = workspace.engine().outputs()
    made = write_client_files(workspace, outputs)
    aliases = [alias for alias in made if stack.units[alias].spec.running]
    for alias in aliases:
        say(f"login to {alias} works ({wait_for_login(workspace, alias):.1f} s)")
    say(f"up in {time.monotonic() - started:.0f} s")
    return Made(aliases, stack, outputs)


def _write_what_is_there(workspace: Workspace) -> None:
    """Let people reach the units that are up, though the whole is not."""
    with suppress(ToolError):
        if "units" in (outputs := workspace.engine().outputs()):
            write_client_files(workspace, outputs)


def _prove(workspace: Workspace) -> "Stack":
    """See that the walls stand and hold, also where `up` changed nothing; give the stack. Raises ToolError."""
    from tools.probe.sites import prove_stack  # noqa: PLC0415 - takes a second, which other commands need not wait
    from tools.stack.reading import read_file  # noqa: PLC0415

    stack = read_file(workspace.config_file, workspace.stack, workspace.engine().environment)
    prove_stack(stack)
    return stack


def make_ready(workspace: Workspace, rig: Rig) -> None:
    """Make all that the engine needs: itself, a rig with the images on it, a stack file with a secret."""
    toolchain.ensure_debian("openssh-client")  # for the login that proves it, and the one that follows
    Engine(workspace.stack).env()  # the toolchain before the rig: it takes longest and needs none
    built = images.build(*IMAGES, *named(template(workspace.source)))
    rig.up()
    loaded = rig.load(*(image.archive for image in built.values()))
    workspace.prepare()
    write_stack(workspace, rig, catalogue(loaded))
    workspace.begin()


def named(said: Config) -> list[str]:
    """Name the images of ours, beside `IMAGES`, that a stack file needs: ``image: workspace``, ``browser: true``."""
    tenants = table(said, "gpu-runtime:tenants")
    wanted = [table(units, name).get("image") for units in _tables(tenants, "units") for name in units]
    if any(table(storages, name).get("browser") for storages in _tables(tenants, "storages") for name in storages):
        wanted.append("dufs")
    if table(said, "gpu-runtime:platform").get("browser"):
        wanted += ["proxy", "routes"]
    return sorted(name for name in images.NAMES if name in wanted and name not in IMAGES)


def _tables(tenants: Config, key: str) -> list[Config]:
    return [table(table(tenants, tenant), key) for tenant in tenants]


def write_stack(workspace: Workspace, rig: Rig, images_there: dict[str, str]) -> None:
    """Write the stack file for the engine from the one that people edit. Raises ToolError where that is none."""
    workspace.write(overlay(template(workspace.source), rig, images_there, workspace.public_key()))


class _Loader(yaml.SafeLoader):
    """Takes a key that is there twice for a mistake, as the engine does with the stack files that it reads itself."""

    @override
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} is there twice", problem_mark=key.start_mark)
            seen |= {key.value} if isinstance(key, yaml.ScalarNode) else set()
        return super().construct_mapping(node, deep)


def template(source: Path) -> Config:
    """Read the stack file that people edit; what its values should be is the program's to say.

    Raises ToolError when it is missing, no YAML, or no stack file at all.
    """
    try:
        said = yaml.load(source.read_text(), _Loader)  # noqa: S506 - a safe one
    except FileNotFoundError:
        raise ToolError(f"{source} is not there; `git checkout {source.name}` in its folder brings it back") from None
    except yaml.YAMLError as error:
        raise ToolError(f"{source} is no YAML: {' '.join(str(error).split())}") from None
    config = said.get("config") if isinstance(said, dict) else None
    if not isinstance(config, dict):
        raise ToolError(f"{source} is no stack file: it needs a table `config:` with the keys of gpu-runtime")
    return config


def catalogue(references: list[str]) -> dict[str, str]:
    """Give the images that a rig has, by name: ``gate`` for ``localhost/gpu-runtime/gate@sha256:...``."""
    return {reference.partition("@")[0].rpartition("/")[2]: reference for reference in references}


def apply(workspace: Workspace, rig: Rig) -> None:
    """Run the engine's `up`, which previews with the pack and stops there when the law is broken."""
    engine = workspace.engine()
    identity = rig.identity or ""
    changed = workspace.cluster_id.exists() and workspace.cluster_id.read_text() != identity
    if changed:
        say("the rig is another cluster than the one this state was written for: asking it what is there")
    workspace.cluster_id.write_text(identity)
    workspace.unlock()
    refresh = ["--refresh"] if changed or os.environ.get(REFRESH) == "1" else []
    if engine.run(
        "up",
        "--yes",
        "--continue-on-error",
        "--policy-pack",
        str(PACK),
        "--suppress-outputs",
        "--suppress-progress",
        *refresh,
    ):
        raise ToolError("the stack is not up: pulumi says why above; mend it and run again")


def preview(workspace: Workspace, rig: Rig) -> int:
    """Show what `up` would change; it needs the rig and the images that `up` has made."""
    if not workspace.exists or _settled(rig).state != "running":
        raise ToolError("there is no local stack to compare with: run `make up` first")
    applied = workspace.config_file.read_text()
    workspace.unlock()
    there = yaml.safe_load(applied)["config"]["gpu-runtime:images"]
    new = [name for name in named(template(workspace.source)) if name not in there]
    built = images.catalogue(images.build(*new)) if new else {}  # what `up` will load
    try:
        write_stack(workspace, rig, built | there)
        return workspace.engine().run("preview", "--policy-pack", str(PACK))
    finally:
        replace(workspace.config_file, applied)  # what `up` applied last is what other commands look at


def down(workspace: Workspace, rig: Rig, *, keep_rig: bool) -> None:
    """Destroy the stack, say what it retains, then remove the rig and with it that data, unless *keep_rig*.

    Raises ToolError for a stack with a protected storage, or on a rig that is to be kept and does not answer: of both
    nothing is removed then.
    """
    if workspace.exists:
        workspace.unlock()
        demand_unprotected(workspace.engine())
    if workspace.exists:
        found = _settled(rig) if keep_rig else rig.status()  # of a rig that goes nothing stays in any case
        if found.state == "running":
            _destroy(workspace)
        elif keep_rig and found.state in UNSETTLED:
            raise ToolError(f"the rig is {found.state}, {found.detail}: the stack on it is not destroyed; try again")
    if keep_rig:
        say("KEEP=1: the rig and what is retained on it stay; `make up` adopts it again")
        return
    rig.down()
    shutil.rmtree(workspace.folder, ignore_errors=True)
    say("down: stack, rig and its data are gone")


def demand_unprotected(engine: Engine) -> None:
    """Refuse to destroy a stack in part: the engine leaves what is protected, and takes the rest.

    Raises ToolError. A stack that has no state yet has nothing that is protected.
    """
    protected: list[str] = []
    with suppress(ToolError):
        protected = engine.outputs().get("protected", [])
    if protected:
        advice = "say `protect: false` of each in the stack file, run `up`, then `down`"
        raise ToolError(f"protected: storage {', '.join(protected)}; {advice}")


def _settled(rig: Rig) -> Status:
    """Give how *rig* is, after waiting for what is starting, or sick for a moment."""
    end = time.monotonic() + PATIENCE_SECONDS
    while (found := rig.status()).state in UNSETTLED and time.monotonic() < end:
        time.sleep(1)
    return found


def _destroy(workspace: Workspace) -> None:
    engine = workspace.engine()
    retained = engine.outputs().get("retained", [])
    if engine.run("destroy", "--yes", "--continue-on-error", "--suppress-progress"):
        raise ToolError("the stack is not destroyed: pulumi says why above")
    for claim in retained:
        say(f"retained: claim {claim}, with its namespace")
