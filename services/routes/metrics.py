"""What Prometheus is told: how old the view is that is served. At a socket beside the files, to which Envoy leads."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

SOCKET = "metrics.sock"

TEXT = """\
# HELP gpu_runtime_routes_view_age_seconds Since what is served was known to be what the cluster has.
# TYPE gpu_runtime_routes_view_age_seconds gauge
gpu_runtime_routes_view_age_seconds {age}
"""


class _Handler(BaseHTTPRequestHandler):
    server: "Metrics"

    def do_GET(self) -> None:
        """Answer every path alike: Envoy leads here from one alone."""
        body = TEXT.format(age="+Inf" if (age := self.server.age()) == float("inf") else f"{age:.1f}").encode()
        self.send_response_only(200)  # which logs no line of who asked
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Metrics(ThreadingUnixStreamServer):
    """Answers in *folder* with the seconds that *age* gives, from a thread of its own that ends with the program.

    Raises OSError where it cannot listen.
    """

    daemon_threads = True

    def __init__(self, folder: Path, age: Callable[[], float]) -> None:
        self.age = age
        path = folder / SOCKET
        path.unlink(missing_ok=True)  # a container that ended leaves its own
        super().__init__(str(path), _Handler)
        threading.Thread(target=self.serve_forever, name=SOCKET, daemon=True).start()
