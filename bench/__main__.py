"""``python -m bench``: what gpu-runtime costs, as ratios of things measured in one run, and seconds on a rig."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout

from bench import live, preview, tunnel
from bench.figures import Row, table
from tools.shell import command, say

PARTS = ("preview", "tunnel", "proxy", "routes", "rig", "second-up", "login", "traffic")
SIZES = (10, 30, 100, 300)
ROUNDS = 3
"""Enough for a median; a whole run takes half an hour on two cores."""


def main() -> None:
    """Measure what the command line asks for and print one table; a goal that is missed is no failure."""
    arguments = _parser().parse_args()
    parts = set(arguments.only or PARTS)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling every module at every start is nobody's figure
    started = time.monotonic()
    say(f"bench: {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; other work on this machine is noise")
    rows: list[Row] = []
    with redirect_stdout(sys.stderr):  # what is measured talks, too; the table alone is the result
        if "preview" in parts:
            rows += preview.rows(arguments.units, arguments.rounds)
        if "tunnel" in parts:
            rows += tunnel.rows(arguments.rounds)
        if parts & {"proxy", "routes"}:
            rows += _web_rows(parts, arguments.rounds)
        if parts - {"preview", "tunnel", "proxy", "routes"}:
            rows += live.rows(parts, arguments.rounds)
    say(f"bench: {time.monotonic() - started:.0f} s, {arguments.rounds} rounds, the variants of a round in turns")
    print(table(rows))


def _web_rows(parts: set[str], rounds: int) -> Iterator[Row]:
    from bench import web  # noqa: PLC0415 - it takes the tests' own means along, which the others need not wait for

    if "proxy" in parts:
        yield from web.proxy_rows(rounds)
    if "routes" in parts:
        yield from web.route_rows(rounds)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part alone; may be repeated")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each variant (default: %(default)s)")
    parser.add_argument("--units", type=int, nargs="+", default=SIZES, help="sizes of stacks for previews")
    return parser


if __name__ == "__main__":
    command(main)
