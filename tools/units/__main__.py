"""``python -m tools.units stop|start|restart|logs UNIT``: what the make targets of the same names run.

`stop` and `start` write `running` into the stack file and run `make up`; `restart` replaces the pod and no file.
"""

import argparse
import os
import sys
from pathlib import Path

from tools.shell import command, say
from tools.stack.asking import asked
from tools.stack.reading import read_stack, stack_file
from tools.stack.workspace import LOCAL, Workspace
from tools.units import named
from tools.units.declare import declare
from tools.units.pods import restart, show_logs


def main() -> None:
    """Do what the command line says."""
    arguments = _parser().parse_args()
    if arguments.command in {"stop", "start"}:
        _declare(arguments.stack, arguments.unit, running=arguments.command == "start")
        return
    stack = read_stack(arguments.stack)
    named.demand(arguments.unit, stack.units, f"stack {arguments.stack}")
    unit = stack.units[arguments.unit]
    with asked(stack) as client:
        if arguments.command == "restart":
            restart(client, unit)
        else:
            show_logs(client, unit, arguments.container, follow=arguments.follow)


def _declare(stack: str, alias: str, *, running: bool) -> None:
    """Write it down, then become `up`: Ctrl-C is that program's own business."""
    path = _edited(stack)
    word = f"`running: {str(running).lower()}` of {alias}"
    changed = declare(path, alias, running=running)
    say(f"{path.name}: {word} is written" if changed else f"{path.name} has {word} already, said or meant")
    os.execv(sys.executable, [sys.executable, "-m", "tools.stack", "up", "--stack", stack])  # noqa: S606 - ourselves


def _edited(stack: str) -> Path:
    """Give the stack file that people edit; the local stack's own copy is written anew from it each time."""
    return Workspace().source if stack == LOCAL else stack_file(stack)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.units", description=__doc__)
    parser.add_argument("command", choices=("stop", "start", "restart", "logs"))
    parser.add_argument("unit", help="<unit>.<tenant>")
    parser.add_argument("--stack", default=LOCAL, help="stack that has the unit (default: %(default)s)")
    parser.add_argument("--container", default="unit", help="whose logs: tunnel, accounts... (default: %(default)s)")
    parser.add_argument("--follow", action="store_true", help="go on with what it says from now on")
    return parser


if __name__ == "__main__":
    command(main)
