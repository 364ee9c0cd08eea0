"""Measures for how long a new pod still reached the API server; it loads next to nothing, to begin early."""

import os
import socket
import threading
import time

from probe.age import age

OPTION = "--window"

TRY_SECONDS = 0.25
"""For one connection: far more than a cluster's own network needs."""

PAUSE_SECONDS = 0.005
"""Between two connections: the precision of the answer, and 200 a second at most for the API server."""

PORT = 443
"""Of the Service ``kubernetes``, always."""


class Window:
    """Connects again and again in a thread, until ``end``."""

    def __init__(self, address: str, port: int = PORT) -> None:
        self.last_answer: float | None = None
        self.tries = 0
        self._where = (address, port)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop connecting."""
        self._over.set()
        self._thread.join(2 * TRY_SECONDS)

    def _run(self) -> None:
        while not self._over.is_set():
            self.tries += 1
            try:
                socket.create_connection(self._where, TRY_SECONDS).close()
                self.last_answer = age()
            except OSError:
                pass  # closed: nothing to note
            time.sleep(PAUSE_SECONDS)


def begin(argv: list[str]) -> Window | None:
    """Begin to measure where the command line asks for it."""
    address = os.environ.get("KUBERNETES_SERVICE_HOST")
    return Window(address) if OPTION in argv and address else None
