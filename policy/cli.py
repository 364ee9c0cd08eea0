"""Judge manifests on a terminal or in a pipeline: `python -m policy [options] PATH...`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from policy.check import Check, Framework
from policy.checks import ALL
from policy.law import judge_sources
from policy.levels import Level, Levels, levels_of
from policy.reading import Document, UnreadableError, documents
from policy.reports import WRITERS, Report, catalogue

CLEAN: Final = 0
FOUND: Final = 1
UNREADABLE: Final = 2
"""Also what argparse ends with when the command line is wrong."""

EPILOG: Final = """\
Ends with 0 when nothing mandatory is broken, 1 when something is, 2 when the input cannot be read.
All PATHs are judged together: a NetworkPolicy in one file walls the pods of another."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge what the command line names, print what was found, and return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not options.paths and not options.list_checks:
        parser.error("name a file, a folder, or - for standard input")
    try:
        levels = _levels(options.config)
        checks = levels.enabled(_chosen(options.framework))
        if options.list_checks:
            sys.stdout.write(catalogue(checks))
            return CLEAN
        read = _read(options.paths)
    except UnreadableError as error:
        sys.stderr.write(f"policy: {error}\n")
        return UNREADABLE
    reports = _judged(read, checks, levels)
    sys.stdout.write(WRITERS[options.format](reports, checks, len(read)))
    return FOUND if any(report.level is Level.MANDATORY for report in reports) else CLEAN


def _read(paths: list[str]) -> list[Document]:
    """Read what *paths* name. Raises UnreadableError where that is nothing, too: nothing judged is not clean."""
    if read := documents(paths):
        return read
    raise UnreadableError(f"no object to judge in {', '.join(paths)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m policy",
        description="Judge Kubernetes manifests by the security law of gpu-runtime.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a file, a folder, or - for standard input")
    parser.add_argument(
        "--framework",
        action="append",
        choices=[framework.value for framework in Framework],
        metavar="NAME",
        help=f"only the checks of this list (repeatable): {', '.join(Framework)} (default: gpu-runtime, all)",
    )
    parser.add_argument("--config", metavar="FILE", help='levels, as for the pack: {"law": {"levels": {CHECK: LEVEL}}}')
    parser.add_argument("--format", choices=list(WRITERS), default="text", help="default: text")
    parser.add_argument("--list-checks", action="store_true", help="print the checks and end")
    return parser


def _chosen(frameworks: Sequence[str] | None) -> tuple[Check, ...]:
    if not frameworks or Framework.GPU_RUNTIME in frameworks:
        return ALL
    return tuple(check for check in ALL if check.FRAMEWORKS.keys() & set(frameworks))


def _levels(file: str | None) -> Levels:
    if file is None:
        return Levels()
    try:
        return levels_of(yaml.safe_load(Path(file).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
        raise UnreadableError(f"{file}: {' '.join(str(error).split())}") from error


def _judged(read: Sequence[Document], checks: Sequence[Check], levels: Levels) -> list[Report]:
    found = judge_sources([document.content for document in read], checks)
    return [Report(violation, read[index], levels.of(violation.check)) for index, violation in found]
