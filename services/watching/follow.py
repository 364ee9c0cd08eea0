"""Keep a table as the cluster has it, for as long as the program runs."""

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from watching.api_server import ApiServer, AwayError, GoneError
from watching.log import event
from watching.table import Table

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
"""Seconds between tries while the API server is away: doubled from the first to the longest, less up to a half."""

SHORTEST_WATCH = 1.0
"""Seconds. A watch that ends sooner and said nothing is a failure: else it would be asked for again and again."""


@dataclass
class Follower:
    """Follows *table* at *api*: lists, then watches; while the API server is away the table stays as it was."""

    api: ApiServer
    table: Table[Any]
    heard: float = float("-inf")
    """When it last heard from the API server, as `time.monotonic` counts."""
    _version: str = ""
    """What to go on from; empty: nothing, everything must be listed."""
    _away: bool = False

    def start(self) -> None:
        """Follow in a thread of its own, which ends with the program."""
        threading.Thread(target=self.run, name=self.table.kind.path, daemon=True).start()

    def run(self) -> None:
        """Follow forever."""
        pause = FIRST_PAUSE
        while True:
            try:
                self._watch() if self._version else self._list()
                pause = FIRST_PAUSE
            except GoneError:
                self._version = ""
            except Exception as error:  # noqa: BLE001 - whatever goes wrong, the table stays and it is tried again
                self._lost(error)
                time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads load, guards nothing
                pause = min(2 * pause, LONGEST_PAUSE)

    def _list(self) -> None:
        versions: list[str] = []
        self.table.replace(self._listed(versions))
        self._hear(versions[0])
        event("listed", what=self.table.kind.path, objects=len(self.table.known or ()))

    def _listed(self, versions: list[str]) -> Iterator[dict[str, Any]]:
        """Yield all objects, and note the version of each page: it is that of the whole, as it was at the first."""
        for page, version in self.api.pages(self.table.kind):
            versions.append(version)
            yield from page

    def _watch(self) -> None:
        begun, before = time.monotonic(), self._version
        for what, thing, version in self.api.events(self.table.kind, before):
            if what != "BOOKMARK":
                self.table.change(what, thing)
            self._hear(version)
        if self._version == before and time.monotonic() - begun < SHORTEST_WATCH:
            raise AwayError("it ends a watch at once")
        self._hear(self._version)

    def _hear(self, version: str) -> None:
        self._version, self.heard = version, time.monotonic()
        if self._away:
            self._away = False
            event("cluster-back", what=self.table.kind.path)

    def _lost(self, error: Exception) -> None:
        """Say so once, however long it lasts."""
        if not self._away:
            self._away = True
            event("cluster-away", what=self.table.kind.path, reason=str(error) or type(error).__name__)
