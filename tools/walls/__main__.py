"""``python -m tools.walls --stack X``: who reaches whom in a stack, computed from its policies; `make walls`."""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator

from tools.shell import HEARTBEAT_SECONDS, ToolError, command, say
from tools.walls.matrix import Cell, matrix
from tools.walls.stacks import stack_of
from tools.walls.table import table, text

UNREADABLE = 2

LEGEND = "a row is a destination, a column is a pod that begins; `some`: not all of them (WHY=1 names each)"


def main() -> int:
    """Print the matrix; 2 when the stack cannot be read."""
    arguments = _parser().parse_args()
    try:
        stack = stack_of(arguments.stack)
    except ToolError as error:
        say(f"error: {error}")
        return UNREADABLE
    cells = _watched(matrix(stack).cells())
    if arguments.json:
        for cell in cells:
            print(json.dumps(cell.plain()))
        return 0
    found = list(cells)
    print(text(table(found)))
    print(f"{len(found)} cells; {LEGEND}")
    if arguments.why:
        sys.stdout.writelines(_reason(cell) for cell in found)
    return 0


def _watched(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Say how far it is, every few seconds."""
    said = time.monotonic()
    for count, cell in enumerate(cells):
        if time.monotonic() - said > HEARTBEAT_SECONDS:
            said = time.monotonic()
            say(f"{count} cells computed")
        yield cell


def _reason(cell: Cell) -> str:
    place, word = cell.place, "open  " if cell.open else "closed"
    where = f"[{place.address}]:{place.port}" if place.address.version == 6 else f"{place.address}:{place.port}"  # noqa: PLR2004 - IPv6
    return f"{word}  {cell.source.name} -> {place.group}: {place.name}, {where}/{place.protocol}: {cell.why}\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.walls", description=__doc__)
    parser.add_argument("--stack", default="local", help="stack to look at (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one object per cell and line")
    parser.add_argument("--why", action="store_true", help="print the reason of each cell too")
    return parser


if __name__ == "__main__":
    command(main)
