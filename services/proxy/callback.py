"""``python3 -m proxy.callback``: seal codes of an issuer for the origin that was asked, for the Envoy beside it.

The issuer comes back to the main host, which leads on to an origin that a tenant's own page may be at, as the state
says; and whoever begins a login chooses the state, and what the code is bound to. So no page gets to see a code.
"""

import argparse
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

from proxy.seal import seal, unseal

CODE = "x-code"
SEAL, UNSEAL = "/seal", "/unseal"


class _Handler(BaseHTTPRequestHandler):
    server: "Callback"

    def do_GET(self) -> None:
        """Give what the code in the header is for the origin that is asked as host; 403 where it is none."""
        use = {SEAL: seal, UNSEAL: unseal}.get(self.path)
        said = use and use(self.server.key, self.headers.get("Host", ""), self.headers.get(CODE, ""))
        body = (said or "").encode()
        self.send_response_only(200 if said else 403)  # which logs no line of who asked
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Callback(ThreadingUnixStreamServer):
    """Answers at *socket* with the key that is in *key_file* at that time.

    Raises OSError where it cannot listen.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, socket: Path, key_file: Path) -> None:
        self._key_file = key_file
        socket.unlink(missing_ok=True)  # a container that ended leaves its own
        super().__init__(str(socket), _Handler)

    @property
    def key(self) -> bytes:
        """The key, as the kubelet last put it there."""
        return bytes.fromhex(self._key_file.read_text())


def main(argv: list[str]) -> int:
    """Run until SIGTERM or SIGINT; 0 after an ordered end, 1 with one sentence where it cannot start."""
    parser = argparse.ArgumentParser(prog="proxy.callback", description="Seals an issuer's codes, each for one origin.")
    parser.add_argument("--socket", type=Path, required=True, help="where to listen")
    parser.add_argument("--key-file", type=Path, required=True, help="64 hexadecimal digits")
    options = parser.parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        made = Callback(options.socket, options.key_file)
        made.key  # noqa: B018 - one that cannot be read is told now
    except (OSError, ValueError) as error:
        sys.stderr.write(f"proxy.callback: {type(error).__name__}: it cannot start with {options}\n")
        return 1
    threading.Thread(target=made.serve_forever, daemon=True).start()
    stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
