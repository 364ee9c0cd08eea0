"""Envoy's administration, over its Unix socket."""

import http.client
import json
import socket
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import Any

ANSWER_SECONDS = 10.0


class AdminError(Exception):
    """Envoy answers something else than it should."""


class Admin:
    """The administration of one Envoy, whose socket is *path*."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fail_health(self) -> None:
        """Say to whoever asks that this Envoy is not ready; it also asks each client to come anew.

        Raises AdminError or OSError.
        """
        self._ask("POST", "/healthcheck/fail")

    def requests(self, prefix: str) -> int:
        """Count the requests in hand, WebSockets included, of the listener whose statistics begin with *prefix*."""
        name = f"http.{prefix}.downstream_rq_active"
        said: dict[str, Any] = json.loads(self._ask("GET", f"/stats?format=json&filter=^{name}$"))
        found = [stat["value"] for stat in said["stats"] if stat.get("name") == name]
        if not found:
            raise AdminError(f"Envoy knows no {name}")
        return int(found[0])

    def _connection(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("localhost", timeout=ANSWER_SECONDS)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(ANSWER_SECONDS)
        connection.sock.connect(str(self._path))
        return connection

    def _ask(self, method: str, path: str) -> bytes:
        with closing(self._connection()) as connection:
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read()
        if answer.status != HTTPStatus.OK:
            raise AdminError(f"Envoy answers {answer.status} to {method} {path.partition('?')[0]}")
        return body
