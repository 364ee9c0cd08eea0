"""``python3 -m gate``: authorise tunnels for frps, which asks over HTTPS (its httpPlugins)."""

import argparse
import asyncio
import os
import signal
import ssl
import sys
from pathlib import Path

from watching.api_server import ApiServer
from watching.follow import Follower
from watching.log import event

from gate import metrics
from gate.bandwidth import read_bandwidth
from gate.keys import KeyFileError, read_keys
from gate.rules import Policy
from gate.server import HEAD_LIMIT, HEALTH_PATH, PLUGIN_PATH, REQUEST_SECONDS, Gate
from gate.view import View

FINISH_SECONDS = 2.0
"""For the requests in hand once the door is closed; each takes milliseconds."""

API_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds who it is to the API server."""


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
    parser.add_argument("--bandwidth-file", type=Path, help="none, or what each unit may send and take, such as 100MB")
    parser.add_argument("--owner", action="append", required=True, metavar="STACK", help="a stack to admit; repeatable")
    parser.add_argument("--api-dir", type=Path, default=API_DIR, help="ca.crt and token for the API server")
    parser.add_argument("--api-server", default=_in_cluster(), metavar="HOST:PORT", help="default: this cluster's")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="answer Prometheus there, without TLS")
    parser.add_argument(
        "--drain-seconds", type=float, default=3.0, help="serve on after SIGTERM (default: %(default)s)"
    )
    return parser.parse_args(argv)


def _in_cluster() -> str:
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{what}", "") for what in ("HOST", "PORT"))
    return f"{host}:{port}"


def _address(said: str) -> tuple[str, int]:
    """Read HOST:PORT, of which an IPv6 host may stand in brackets.

    Raises ValueError with what is wrong.
    """
    host, _, port = said.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{said!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def followed(options: argparse.Namespace) -> View:
    """Begin to follow the cluster; the view is empty until it has answered."""
    view, folder = View(), options.api_dir
    api = ApiServer(*_address(options.api_server), folder / "ca.crt", folder / "token")
    followers = [Follower(api, table) for table in (view.namespaces, view.services)]
    metrics.observe(*followers)
    if options.metrics:
        metrics.serve(*_address(options.metrics))
    for follower in followers:
        follower.start()
    return view


def tls_context(cert: Path, key: Path) -> ssl.SSLContext:
    """Return the server's TLS 1.3 settings; frps and every kubelet in support speak it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(cert, key)
    return context


async def run(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT, then drain: peers learn of the end a little later than we do."""
    context = tls_context(options.cert_file, options.private_key_file)
    owners, view = frozenset(options.owner), followed(options)
    gate = Gate(lambda: Policy(read_keys(options.key_file), owners, view, read_bandwidth(options.bandwidth_file)))
    server = await asyncio.start_server(
        gate.serve,
        *_address(options.listen),
        limit=HEAD_LIMIT,
        ssl=context,
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
        read_bandwidth(options.bandwidth_file)
        asyncio.run(run(options))
    except (KeyFileError, OSError, ValueError) as error:
        event("cannot-start", reason=str(error))
        return 1
    event("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
