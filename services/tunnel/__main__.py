"""``python3 -m tunnel``: keep a unit's host announced on every frps of a mounted list."""

import argparse
import signal
import sys
import threading
from pathlib import Path

from tunnel.audit import follow
from tunnel.frpc import Program
from tunnel.log import event
from tunnel.supervisor import Supervisor

LAST_WORDS_SECONDS = 1.0
"""For the ends of the sessions that were open, which sshd has written by then."""


def arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line; a mistake ends the program with a usage message."""
    parser = argparse.ArgumentParser(prog="tunnel", description="Runs one frpc per server for one unit.")
    parser.add_argument("--dir", type=Path, required=True, help="folder of tunnel.json, ca.crt, token and capability")
    parser.add_argument("--state", type=Path, required=True, help="folder in memory for frpc's files")
    parser.add_argument("--frpc", type=Path, default=Path("/usr/bin/frpc"))
    log = Path("/.gpu-runtime-run/audit.log")
    parser.add_argument("--audit", type=Path, default=log, help="the unit's audit log (default: %(default)s)")
    parser.add_argument("--local-port", type=int, default=2222, help="sshd's port on loopback (default: %(default)s)")
    stay = "when told to end, stay while sshd answers: its sessions see the end of the program"
    parser.add_argument("--until-sshd-ends", action="store_true", help=stay)
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run until SIGTERM or SIGINT."""
    options = arguments(argv)
    stop, over = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    program = Program(options.frpc, options.state, options.local_port)
    event("supervising", dir=str(options.dir), port=options.local_port)
    audit = threading.Thread(target=follow, args=(options.audit, options.state / "audit", over), daemon=True)
    audit.start()
    Supervisor(options.dir, program, stop, stays=options.until_sshd_ends).run()
    over.set()
    audit.join(LAST_WORDS_SECONDS)
    event("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
