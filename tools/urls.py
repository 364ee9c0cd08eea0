"""``python -m tools.urls [--tenant T] [--json] --stack X``: print every page that a stack shows, and no password.

A stack that is up knows them: they are among its outputs, which say nothing secret.
"""

import argparse
import json

from tools.shell import command
from tools.stack import pages
from tools.stack.engine import Engine
from tools.stack.reading import stack_file
from tools.stack.workspace import LOCAL, Workspace


def main() -> None:
    """Do what the command line says."""
    arguments = _parser().parse_args()
    stack_file(arguments.stack)  # refuses one that is not there, by name
    engine = Workspace().engine() if arguments.stack == LOCAL else Engine(arguments.stack)
    found = pages.chosen(engine.outputs(), arguments.tenant)
    print(json.dumps(pages.as_data(found)) if arguments.json else "\n".join(pages.lines(found)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.urls", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tenant", default="", help="pages of this one alone")
    parser.add_argument("--json", action="store_true", help="for programs: tenants to index, storages and ports")
    parser.add_argument("--stack", default=LOCAL, help="stack to ask (default: %(default)s)")
    return parser


if __name__ == "__main__":
    command(main)
