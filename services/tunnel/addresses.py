"""Where the servers are dialed, looked up beside the work: while name servers are away the last answer stands."""

import contextlib
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from ipaddress import ip_address

from tunnel.wanted import Server

AGAIN_SECONDS = 5.0
"""Between look-ups of one name."""

ANSWER_SECONDS = 1.0
"""For an address to take a connection before the next one is tried."""


@dataclass
class Addresses:
    """The newest address of each server."""

    known: dict[Server, str] = field(default_factory=dict)
    due: dict[Server, float] = field(default_factory=dict)
    busy: set[Server] = field(default_factory=set)

    def look(self, server: Server, now: float) -> None:
        """Begin to look the name of *server* up, unless that is under way or was done a moment ago."""
        if server in self.busy or now < self.due.get(server, 0.0):
            return
        if is_address(server.address):
            self.known[server] = server.address
            return
        self.busy.add(server)
        try:
            threading.Thread(target=self._find, args=(server,), daemon=True).start()
        except RuntimeError:  # the unit has used up the pod's processes: frpc looks for itself
            self._learn(server, None)

    def of(self, server: Server) -> str | None:
        """Give where *server* is, its name where that was never known; None while the first answer is awaited."""
        return self.known.get(server)

    def _find(self, server: Server) -> None:
        self._learn(server, address_of(server, self.known.get(server)))

    def _learn(self, server: Server, found: str | None) -> None:
        self.known[server] = found or self.known.get(server, server.address)
        self.due[server] = time.monotonic() + AGAIN_SECONDS
        self.busy.discard(server)


def is_address(text: str) -> bool:
    """Say whether *text* is an address already."""
    with contextlib.suppress(ValueError):
        return bool(ip_address(text))
    return False


def address_of(server: Server, last: str | None = None) -> str | None:
    """Give the one address to dial *server* at; None where none is found.

    Its name where a family has several addresses: frpc tries them, and they may differ at every look. One address of
    each family is one place with two ways to it, as a dual-stack Service is: the way that is open is kept, *last*
    before the other, since the name would need a name server at every session, and a closed way leads nowhere.
    """
    try:
        found = socket.getaddrinfo(server.address, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    if max(Counter(family for family, *_ in found).values()) > 1:
        return server.address
    ways = sorted((str(place[0]) for *_, place in found), key=lambda way: way != last)
    if len(ways) == 1:  # whatever it answers, there is no other
        return ways[0]
    return next((way for way in ways if answers(way, server.port)), ways[0])


def answers(address: str, port: int) -> bool:
    """Tell whether somebody takes connections at *port* of *address*."""
    with contextlib.suppress(OSError), socket.create_connection((address, port), ANSWER_SECONDS):
        return True
    return False
