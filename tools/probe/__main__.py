"""``python -m tools.probe --stack X``: run a fresh probe on a stack's cluster and show what it found."""

import argparse

from tools.probe.sites import prove_named
from tools.shell import command


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tools.probe", description=__doc__)
    parser.add_argument("--stack", default="local", help="stack whose walls to try (default: %(default)s)")
    prove_named(parser.parse_args().stack, table=True)


if __name__ == "__main__":
    command(main)
