"""HTTP from within the network namespace of a container, without a program in it."""

import ctypes
import http.client
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import override

CLONE_NEWNET = 0x40000000
PATIENCE = 60.0


class Connection(http.client.HTTPConnection):
    """A connection that begins in the network namespace *space*."""

    def __init__(self, space: Path, host: str, port: int) -> None:
        super().__init__(host, port, timeout=PATIENCE)
        self.space = space

    @override
    def connect(self) -> None:
        self.sock = socket_in(self.space)
        self.sock.settimeout(PATIENCE)
        self.sock.connect((self.host, self.port))


def socket_in(space: Path) -> socket.socket:
    """Make a socket of the namespace *space*; this thread is in its own again afterwards."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as home, space.open() as there:
        assert libc.setns(there.fileno(), CLONE_NEWNET) == 0
        try:
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        finally:
            assert libc.setns(home.fileno(), CLONE_NEWNET) == 0


@dataclass
class Answer:
    """What came back, whole."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class Site:
    """Who answers HTTP at a port, as seen from a network namespace."""

    space: Path
    host: str
    port: int

    def ask(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None, body: Any = None) -> Answer:
        """Ask for *path* as it is."""
        with self.begun(path, method, headers, body) as answer:
            return Answer(answer.status, answer.headers, answer.read())

    @contextmanager
    def begun(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None, body: Any = None
    ) -> Iterator[http.client.HTTPResponse]:
        """Ask, and leave the body to be read as slowly as one likes."""
        connection = Connection(self.space, self.host, self.port)
        try:
            connection.request(method, path, headers=dict(headers or {}), body=body)
            yield connection.getresponse()
        finally:
            connection.close()
