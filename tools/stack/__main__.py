"""``python -m tools.stack up|down|preview|ssh-config``: what the make targets of the same names run."""

import argparse
import os
import sys
from pathlib import Path

from tools.rig import Rig
from tools.shell import ToolError, command, say
from tools.stack import local, pages
from tools.stack.client import handouts, write_client_files
from tools.stack.engine import PACK, REPOSITORY, Engine
from tools.stack.workspace import LOCAL, Workspace

STACKS = REPOSITORY / "stacks"


def main() -> int:
    """Do what the command line says; return the exit status."""
    arguments = _parser().parse_args()
    return _local(arguments) if arguments.stack == LOCAL else _other(arguments)


def _local(arguments: argparse.Namespace) -> int:
    workspace, rig = Workspace(), Rig(LOCAL)
    match arguments.command:
        case "up":
            made = local.up(workspace, rig)
            _say_how_to_look(workspace, made, str(rig.node_ip))
            _say_how_to_log_in(workspace, made.aliases)
        case "down":
            local.down(workspace, rig, keep_rig=os.environ.get("KEEP") == "1")
        case "preview":
            return local.preview(workspace, rig)
        case _ if arguments.unit:
            print(handouts(workspace.engine().outputs(), arguments.unit), end="")
        case _:
            write_client_files(workspace, workspace.engine().outputs())
            print(workspace.ssh_config.read_text(), end="")
    return 0


def _say_how_to_look(workspace: Workspace, made: local.Made, node: str) -> None:
    """Say where pages are, with a line that works when pasted."""
    if invited := pages.invitation(workspace, made.stack, made.outputs, node):
        words, look = invited
        say(f"\n{words}\n{look}")


def _say_how_to_log_in(workspace: Workspace, aliases: list[str]) -> None:
    """End with a line that works when pasted."""
    say(f"\nunits: {', '.join(aliases)}. Log in with:")
    if aliases:
        print(f"ssh -F {os.path.relpath(workspace.ssh_config)} {aliases[0]}")


def _other(arguments: argparse.Namespace) -> int:
    """Run a stack of a real cluster; its backend is the operator's and is never made up here."""
    _demand(arguments.stack)
    engine = Engine(arguments.stack)
    pack = ["--policy-pack", str(PACK)]
    match arguments.command:
        case "up":
            refresh = ["--refresh"] if os.environ.get(local.REFRESH) == "1" else []
            return engine.interactive("up", "--continue-on-error", *refresh, *pack) or _prove(arguments.stack)
        case "down":
            local.demand_unprotected(engine)
            return engine.interactive("destroy", "--continue-on-error")
        case "preview":
            return engine.interactive("preview", *pack)
        case _:
            sys.stdout.write(handouts(engine.outputs(), arguments.unit))
            return 0


def _prove(stack: str) -> int:
    """Try the walls anew: enforcement may have stopped while nothing of ours changed."""
    from tools.probe.sites import prove_named  # noqa: PLC0415 - takes a second, which the other commands need not wait

    prove_named(stack)
    return 0


def _demand(stack: str) -> None:
    """Refuse a stack without a file, or without a backend that the operator named."""
    files = {path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in STACKS.glob("Pulumi.*.yaml")}
    if stack not in files:
        raise ToolError(f"there is no stacks/Pulumi.{stack}.yaml; there are stacks {', '.join(sorted(files))}")
    login = Path(os.environ.get("PULUMI_HOME", "~/.pulumi")).expanduser() / "credentials.json"
    if "PULUMI_BACKEND_URL" not in os.environ and not login.exists():
        raise ToolError("no backend keeps the state: set PULUMI_BACKEND_URL (s3://bucket...) or `pulumi login`")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.stack", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "preview", "ssh-config"))
    parser.add_argument("--stack", default=LOCAL, help="stack to work on (default: %(default)s, on a rig of its own)")
    parser.add_argument("--unit", default="", help="of ssh-config: the text for the users of this one, <unit>.<tenant>")
    return parser


if __name__ == "__main__":
    command(main)
