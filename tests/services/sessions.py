"""Sessions through the entrance, as its tests open them to the unit trainer."""

import socket
from collections.abc import Callable

from tests.services.doors import Entrance
from tests.services.world import claim

BANNER = b"SSH-2.0-echo\r\n"
HOST = claim().host
CONNECT = f"CONNECT {HOST}:22 HTTP/1.1\r\nHost: {HOST}:22\r\n\r\n".encode()

OpenEntrance = Callable[..., Entrance]


def session(entrance: Entrance, source: str = "127.0.0.1", version: str = "1.1") -> socket.socket:
    """Open a session and read the banner."""
    status, connection = entrance.open(HOST, source, version)
    assert b" 200 " in status
    connection.settimeout(10)
    assert connection.recv(len(BANNER), socket.MSG_WAITALL) == BANNER
    return connection


def alive(connection: socket.socket) -> bool:
    """Tell whether what is sent comes back."""
    connection.sendall(b"ping")
    return connection.recv(100) == b"ping"
