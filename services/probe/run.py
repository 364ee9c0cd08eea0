"""The program behind ``python3 -m probe``."""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from probe import report
from probe.age import age
from probe.rounds import Probe
from probe.targets import NAMESERVERS, InputError, cluster_domain, nameservers, read
from probe.tries import RESOLVER
from probe.window import OPTION, Window

HOLDS, FAILS, UNREADABLE = 0, 1, 2
"""Exit statuses."""


def arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line; a mistake ends the program with a usage message and status 2."""
    parser = argparse.ArgumentParser(prog="probe", description="Tries what may be reached from here and what may not.")
    parser.add_argument("targets", type=Path, help="JSON list of name, host, port, protocol, expect, why, optional")
    parser.add_argument("--deadline", type=float, default=30.0, help="seconds since the start (default: %(default)s)")
    parser.add_argument(OPTION, action="store_true", help="measure for how long the API server answered at the start")
    parser.add_argument("--resolv-conf", type=Path, default=Path("/etc/resolv.conf"))
    parser.add_argument(
        "--message-file", type=Path, default=Path("/dev/termination-log"), help="where the kubelet reads why we failed"
    )
    return parser.parse_args(argv)


def main(argv: list[str], window: Window | None) -> int:
    """Try everything, say what was found; 0 all as expected, 1 not so, 2 nothing was tried."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))  # process 1 has no default for it
    os.environ.update(RESOLVER)
    options = arguments(argv)
    try:
        resolver = options.resolv_conf.read_text()
        targets = read(options.targets, {**os.environ, NAMESERVERS: nameservers(resolver)})
    except (InputError, OSError) as error:
        _fail(f"nothing was tried: {error}", options.message_file)
        return UNREADABLE
    probe = Probe(targets, options.deadline, cluster_domain(resolver), _say)
    _say(f"trying {len(targets)} targets")
    rows = asyncio.run(probe.run())
    windows = {"answeredMs": probe.last_answer}
    if window is not None:
        window.end()
        windows["apiServerAnsweredMs"] = window.last_answer
    holds = all(row.right for row in rows)
    _say(report.table(rows))
    _say(_about_start(probe.last_answer) if holds else "")
    _say(report.summary(rows, age(), windows))
    if holds:
        _say(report.verdict(rows))
        return HOLDS
    _fail(report.verdict(rows), options.message_file)
    return FAILS


def _about_start(last_answer: float | None) -> str:
    if last_answer is None:
        return "no forbidden target answered at any time since this pod's start"
    return f"start-up window: a forbidden target last answered {last_answer * 1000:.0f} ms after this pod's start"


def _fail(text: str, message_file: Path) -> None:
    """Say it last, where logs are read for a reason, and to the kubelet alone, for the pod's status."""
    with contextlib.suppress(OSError):  # without that file the kubelet takes the end of the log
        message_file.write_text(text)
    _say(text)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
