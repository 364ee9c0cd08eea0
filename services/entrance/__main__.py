"""``python3 -m entrance``: say when the frps beside us may be sent logins."""

import argparse
import signal
import sys
import threading
from pathlib import Path

from entrance.companion import Companion, Server
from entrance.frps import Frps
from entrance.log import event


def address(text: str) -> tuple[str, int]:
    """Split ``host:port``."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line; a mistake ends the program with a usage message."""
    parser = argparse.ArgumentParser(prog="entrance", description="Says when an frps that has started is ready.")
    parser.add_argument("--name", required=True, help="this tunnel server, as the list calls it")
    parser.add_argument("--servers", type=Path, required=True, help="JSON list of name, host, port of every companion")
    parser.add_argument("--frps", type=address, required=True, help="frps' API, HOST:PORT")
    parser.add_argument("--listen", type=address, required=True, help="HOST:PORT to answer on")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run until SIGTERM, SIGINT or SIGUSR1 (the image's own stop signal)."""
    options = arguments(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda *_: stop.set())
    companion = Companion(options.name, options.servers, Frps(*options.frps))
    server = Server(options.listen, companion)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    event("looking", server=options.name)
    companion.run(stop)
    event("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
