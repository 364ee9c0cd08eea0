"""``python -m tools.status --stack X [--json]``: what each unit and storage of a stack does, and why not.

Exit status: 0 whatever state they are in; 1 when the stack file cannot be read or the cluster cannot be asked.
"""

import argparse
import json
import time
from collections.abc import Iterable, Iterator
from itertools import chain

from tools.shell import HEARTBEAT_SECONDS, command, say
from tools.stack.asking import asked
from tools.stack.reading import read_stack
from tools.stack.workspace import LOCAL
from tools.status.rows import Row, rows, table
from tools.status.storage_rows import StorageRow, storage_rows, storage_table


def main() -> None:
    """Do what the command line says."""
    arguments = _parser().parse_args()
    stack = read_stack(arguments.stack)
    with asked(stack) as client:
        units, storages = _watched(rows(client, stack)), storage_rows(client, stack)
        if arguments.json:
            for row in chain[Row | StorageRow](units, storages):
                print(json.dumps(row.plain))
        else:
            print("\n\n".join(filter(None, (table(units), storage_table(storages)))))


def _watched(found: Iterable[Row]) -> Iterator[Row]:
    """Say how far it is, every few seconds."""
    said = time.monotonic()
    for count, row in enumerate(found):
        if time.monotonic() - said > HEARTBEAT_SECONDS:
            said = time.monotonic()
            say(f"{count} units looked at")
        yield row


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.status", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stack", default=LOCAL, help="stack to look at (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object per unit or storage (`kind`) and line")
    return parser


if __name__ == "__main__":
    command(main)
