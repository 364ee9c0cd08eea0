"""``python3 -m gate``: authorise tunnels for frps, which asks over HTTPS (its httpPlugins)."""

import argparse
import asyncio
import signal
import ssl
import sys
from pathlib import Path

from gate.keys import KeyFileError, read_keys
from gate.log import event
from gate.rules import Policy
from gate.server import HEAD_LIMIT, HEALTH_PATH, PLUGIN_PATH, REQUEST_SECONDS, Gate

FINISH_SECONDS = 2.0
"""For the requests in hand once the door is closed; each takes milliseconds."""


def arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line; a mistake ends the program with a usage message."""
    parser = argparse.ArgumentParser(
        prog="gate",
        description=f"Authorises tunnels: frps asks at {PLUGIN_PATH}, the kubelet at {HEALTH_PATH}.",
    )
    parser.add_argument("--listen", default="0.0.0.0:9000", metavar="HOST:PORT")
    parser.add_argument("--key-file", type=Path, required=True, help="hexadecimal keys, one a line, newest first")
    parser.add_argument("--cert-file", type=Path, required=True, help="certificate chain of this server, PEM")
    parser.add_argument("--private-key-file", type=Path, required=True, help="its private key, PEM")
    parser.add_argument("--owner", action="append", required=True, metavar="STACK", help="a stack to admit; repeatable")
    parser.add_argument(
        "--drain-seconds", type=float, default=3.0, help="serve on after SIGTERM (default: %(default)s)"
    )
    return parser.parse_args(argv)


def tls_context(cert: Path, key: Path) -> ssl.SSLContext:
    """Return the server's TLS 1.3 settings; frps and every kubelet in support speak it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(cert, key)
    return context


async def run(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT, then drain: peers learn of the end a little later than we do."""
    owners = frozenset(options.owner)
    gate = Gate(lambda: Policy(read_keys(options.key_file), owners))
    host, _, port = options.listen.rpartition(":")
    server = await asyncio.start_server(
        gate.serve,
        host.strip("[]"),
        int(port),
        limit=HEAD_LIMIT,
        ssl=tls_context(options.cert_file, options.private_key_file),
        ssl_handshake_timeout=REQUEST_SECONDS,
        ssl_shutdown_timeout=1.0,
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    event("serving", listen=str(server.sockets[0].getsockname()), owners=sorted(owners))
    await stop.wait()
    gate.draining = True
    event("draining", seconds=options.drain_seconds)
    await asyncio.sleep(options.drain_seconds)
    server.close()
    if gate.requests:
        await asyncio.wait(gate.requests, timeout=FINISH_SECONDS)


def main(argv: list[str]) -> int:
    """Run the gate; 0 after an ordered end, 1 with one sentence where it cannot start."""
    options = arguments(argv)
    try:
        read_keys(options.key_file)
        asyncio.run(run(options))
    except (KeyFileError, OSError, ValueError) as error:
        event("cannot-start", reason=str(error))
        return 1
    event("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
