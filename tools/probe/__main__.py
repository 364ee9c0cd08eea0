"""``python -m tools.probe --stack X``: run a fresh probe on a stack's cluster and show what it found."""

import argparse

from tools.probe.fresh import prove
from tools.probe.sites import site_of
from tools.shell import command


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tools.probe", description=__doc__)
    parser.add_argument("--stack", default="local", help="stack whose walls to try (default: %(default)s)")
    prove(site_of(parser.parse_args().stack), table=True)


if __name__ == "__main__":
    command(main)
