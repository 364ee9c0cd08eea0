"""Looks after one frps: keeps the judgement up to date, and answers who asks for it."""

import json
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from entrance.frps import HOSTS_PATH, Frps, LostError, peer_hosts, peers
from entrance.log import event
from entrance.readiness import Hosts, Readiness

READY_PATH = "/ready"

STARTING_SECONDS, SETTLED_SECONDS = 0.5, 2.0
"""Between two looks, before and after it is ready: frps lists a thousand units in some 20 ms."""

FRESH_SECONDS = 10.0
"""How old the list may be that peers get while it is ready: frps ends a connection that was silent for a minute."""

REQUEST_SECONDS = 5.0
"""For a whole request of the kubelet or a peer."""


@dataclass
class Companion:
    """What is known of the frps called *name*; *file* lists the servers, and is read anew each time."""

    name: str
    file: Path
    frps: Frps
    readiness: Readiness = field(default_factory=lambda: Readiness(time.monotonic()))
    held: Hosts = frozenset()
    lost: bool = True
    asked: float = 0.0

    def run(self, stop: threading.Event) -> None:
        """Look until *stop* is set."""
        while not stop.is_set():
            self.look()
            stop.wait(SETTLED_SECONDS if self.ready else STARTING_SECONDS)

    @property
    def ready(self) -> bool:
        """Say whether logins may come."""
        return self.readiness.ready and not self.lost

    def look(self) -> None:
        """Ask frps, and while it is new its peers; once all is well, see that it is still there."""
        now, was = time.monotonic(), self.ready
        if was and now - self.asked < FRESH_SECONDS and self.frps.is_there():
            return
        self.asked = now
        try:
            found = self.frps.hosts()
        except LostError as error:
            self._lose(str(error))
        else:
            self.lost = False
            self.held = self.held if found is None else found
            if not self.readiness.ready:
                self.readiness.judge(now, self.held, self._peers())
        if self.ready != was:
            event("ready" if self.ready else "not-ready", hosts=len(self.held), missing=self.readiness.missing)

    def _lose(self, reason: str) -> None:
        """Begin anew: the next frps knows no unit."""
        if not self.lost:
            event("lost", reason=reason)
        self.lost, self.held, self.readiness = True, frozenset(), Readiness(time.monotonic())

    def _peers(self) -> list[Hosts | None]:
        try:
            listed = peers(self.file, self.name)
        except (OSError, ValueError, KeyError, TypeError):
            return [None]
        return [peer_hosts(host, port) for host, port in listed]


class Server(ThreadingHTTPServer):
    """Answers GET /ready (kubelet) and GET /hosts (peers); the walls let nobody else come here."""

    daemon_threads = True

    def __init__(self, listen: tuple[str, int], companion: Companion) -> None:
        super().__init__(listen, _Handler)
        self.companion = companion


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        """Answer."""
        companion = self.server.companion
        ready = companion.ready
        if self.path == READY_PATH:
            said: dict[str, object] = {
                "ready": ready,
                "hosts": len(companion.held),
                "missing": companion.readiness.missing,
            }
            self._answer(HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, said)
        elif self.path == HOSTS_PATH:
            self._answer(HTTPStatus.OK, {"ready": ready, "hosts": sorted(companion.held)})
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": f"there are {READY_PATH} and {HOSTS_PATH}"})

    def _answer(self, status: HTTPStatus, said: dict[str, object]) -> None:
        body = json.dumps(said).encode()
        self.send_response_only(status)  # the other form logs, and the kubelet asks every second
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
