"""`python3 -m tools.toolchain [--list | --env | --prune | NAME...]`: make programs, or say which there are."""

import argparse
import shlex

from tools.shell import cache_dir, command, locked
from tools.toolchain import ensure, locate, pulumi_env
from tools.toolchain.store import prune
from tools.toolchain.table import BINARIES


def main() -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.toolchain", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs to make; all when none is named")
    parser.add_argument("--list", action="store_true", help="say what there is and where; makes nothing")
    parser.add_argument("--env", action="store_true", help="print export lines for a shell that runs pulumi")
    parser.add_argument("--prune", action="store_true", help="remove programs that this checkout no longer uses")
    arguments = parser.parse_args()
    if arguments.list:
        _list()
    elif arguments.env:
        for name, value in pulumi_env().items():
            print(f"export {name}={shlex.quote(value)}")
    elif arguments.prune:
        _prune()
    else:
        for name, path in ensure(*arguments.names).items():
            print(f"{name}\t{path}")


def _prune() -> None:
    with locked(cache_dir() / "toolchain.lock", "toolchain"):
        for name in prune(locate(binary) for binary in BINARIES.values()):
            print(f"removed\t{name}")


def _list() -> None:
    for binary in BINARIES.values():
        found = locate(binary)
        origin = found.origin()
        print(f"{binary.name}\t{origin or 'missing'}\t{found.path if origin else ''}".rstrip())


command(main)
