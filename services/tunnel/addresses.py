"""Where the servers' names lead, looked up beside the work: while name servers are away the last answer stands."""

import contextlib
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from ipaddress import ip_address

AGAIN_SECONDS = 5.0
"""Between look-ups of one name."""


@dataclass
class Addresses:
    """The newest address of each name."""

    known: dict[str, str] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)

    def look(self, name: str, now: float) -> None:
        """Begin to look *name* up, unless that is under way or was done a moment ago."""
        if name in self.busy or now < self.due.get(name, 0.0):
            return
        if is_address(name):
            self.known[name] = name
            return
        self.busy.add(name)
        try:
            threading.Thread(target=self._find, args=(name,), daemon=True).start()
        except RuntimeError:  # the unit has used up the pod's processes: frpc looks for itself
            self._learn(name, None)

    def of(self, name: str) -> str | None:
        """Give where *name* leads, itself where that was never known; None while the first answer is awaited."""
        return self.known.get(name)

    def _find(self, name: str) -> None:
        self._learn(name, address_of(name))

    def _learn(self, name: str, found: str | None) -> None:
        self.known[name] = found or self.known.get(name, name)
        self.due[name] = time.monotonic() + AGAIN_SECONDS
        self.busy.discard(name)


def is_address(text: str) -> bool:
    """Say whether *text* is an address already."""
    with contextlib.suppress(ValueError):
        return bool(ip_address(text))
    return False


def address_of(name: str) -> str | None:
    """Give the one address of *name*; the name where it has several, for frpc to try them; None where none is found."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    several = max(Counter(family for family, *_ in found).values()) > 1
    return name if several else str(found[0][4][0])
