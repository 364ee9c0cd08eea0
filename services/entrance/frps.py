"""What a tunnel server and its peers hold: frps' own API on loopback, and the other companions'."""

import contextlib
import http.client
import json
import select
from dataclasses import dataclass, field
from pathlib import Path

ASK_SECONDS = 5.0
"""For an answer of frps; a busy one is no dead one."""

PEER_SECONDS = 2.0
"""For an answer of a peer."""

MOST_BYTES = 16 * 1024 * 1024
"""Of an answer: a thousand units take half a megabyte."""

PROXIES = "/api/proxy/tcpmux"
HOSTS_PATH = "/hosts"


class LostError(Exception):
    """Frps is not there, or it is another one than before."""


@dataclass
class Frps:
    """The frps beside us: asked over one connection, whose end is the end of that frps."""

    host: str
    port: int
    connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def hosts(self) -> frozenset[str] | None:
        """Give the hosts that lead through this frps now; None where it is too busy to say.

        Raises:
            LostError: it is gone, or was gone since the last question.

        """
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.host, self.port, timeout=ASK_SECONDS)
        try:
            self.connection.request("GET", PROXIES)
            return online(self.connection.getresponse().read(MOST_BYTES))
        except TimeoutError:
            self._forget()
            return None
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._forget()
            raise LostError(str(error) or type(error).__name__) from None

    def is_there(self) -> bool:
        """Tell, without a question, whether the frps that answered last still runs: frps logs each question."""
        sock = self.connection.sock if self.connection else None
        return sock is not None and not select.select([sock], [], [], 0)[0]

    def _forget(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def online(answer: bytes) -> frozenset[str]:
    """Read frps' list: a proxy's name is its host, which the gate sees to.

    Raises:
        ValueError: this is no such list.

    """
    said = json.loads(answer)
    proxies = said.get("proxies") if isinstance(said, dict) else None
    if proxies is None:
        raise ValueError("frps lists no proxies")
    return frozenset(str(proxy["name"]) for proxy in proxies if proxy.get("status") == "online")


def peer_hosts(host: str, port: int) -> frozenset[str] | None:
    """Give what a ready peer holds, and nothing where it is not ready; None where it cannot be known.

    Nor is it known where the connection is refused: for a pod that has just started, a network plugin may refuse
    what its rules will let through in a moment.
    """
    connection = http.client.HTTPConnection(host, port, timeout=PEER_SECONDS)
    with contextlib.closing(connection):
        try:
            connection.request("GET", HOSTS_PATH)
            said = json.loads(connection.getresponse().read(MOST_BYTES))
            return frozenset(map(str, said["hosts"])) if said["ready"] else frozenset()
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            return None


def peers(file: Path, name: str) -> list[tuple[str, int]]:
    """Read the list of tunnel servers (name, host, port of the companion) but the one called *name*.

    Raises:
        OSError, ValueError, KeyError, TypeError: there is no such list.

    """
    return [(str(one["host"]), int(one["port"])) for one in json.loads(file.read_text()) if one["name"] != name]
