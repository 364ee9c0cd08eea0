"""Fill the volume as the arguments say: `copy SOURCE VOLUME` or `fetch FILES VOLUME`; FILES is a JSON list."""

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType

import certifi

from prepare.copy import copy
from prepare.download import opener
from prepare.fetch import Fetcher, Item
from prepare.volume import PrepareError, why


def main() -> int:
    """Fill the volume; give the exit status. What went wrong is the last that is said."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, _stop)
    try:
        if arguments.how == "copy":
            say(f"copied and compared: {copy(arguments.rsync, arguments.source, arguments.volume).text}")
        else:
            items = [Item(**one) for one in json.loads(arguments.files)]
            Fetcher(arguments.volume, opener(arguments.authorities), say).all(items)
    except PrepareError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(why(error, arguments.volume))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="prepare", description=__doc__)
    ways = parser.add_subparsers(dest="how", required=True)
    copying = ways.add_parser("copy")
    copying.add_argument("--rsync", required=True)
    copying.add_argument("source", type=Path)
    fetching = ways.add_parser("fetch")
    fetching.add_argument("--authorities", default=certifi.where())
    fetching.add_argument("files")
    for way in (copying, fetching):
        way.add_argument("volume", type=Path)
    return parser.parse_args()


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise PrepareError("stopped before it was done: its time is over, or its pod was told to end; what is there stays")


def _fail(message: str) -> int:
    print(f"gpu-runtime: {message}", file=sys.stderr)
    return 1


def say(message: str) -> None:
    """Tell in the log."""
    print(f"gpu-runtime: {message}")


if __name__ == "__main__":
    sys.exit(main())
