"""While volumes are filled `up` says how far that is: the engine waits for their Jobs, for hours, and tells little."""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import pulumi
from status.failures import printable
from status.prepare_states import Prepare
from status.storage_states import StorageState

from components import cluster
from components.storage_survey import JudgedStorage, StoragePlace
from components.telling import Lines, rest

FIRST_SECONDS = 3.0
"""A Job that is over by then needs no word; so nobody asks the cluster where all volumes are filled already."""

POLL_SECONDS = 2.0

Look = Callable[[Iterable[StoragePlace]], list[JudgedStorage]]
"""Judges storages by what the cluster says of them. Raises UnreachableError."""


@dataclass(frozen=True)
class Filling:
    """A storage of this program that is to be filled: where it is, and what its words are shown with."""

    alias: str
    place: StoragePlace
    resource: pulumi.Resource
    job: pulumi.CustomResource


@dataclass
class Teller:
    """Tells of the storages in *waiting* until the engine is done with each; nothing depends on it."""

    look: Look
    waiting: dict[StoragePlace, Filling]
    over: asyncio.Event = field(default_factory=asyncio.Event)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.lines = Lines(self.clock)

    def end(self, place: StoragePlace) -> None:
        """Take note that the engine is done with a storage's Job, well or not."""
        self.waiting.pop(place, None)
        if not self.waiting:
            self.over.set()

    async def run(self) -> None:
        """Tell until all is over; a cluster that does not answer is the engine's to tell."""
        pause = FIRST_SECONDS
        while not await self._over_within(pause):
            begun = self.clock()
            try:
                found = await asyncio.to_thread(self.look, list(self.waiting))
            except cluster.UnreachableError:
                found = []
            for judged in found:
                self._tell(judged)
            pause = rest(POLL_SECONDS, self.clock() - begun)

    async def _over_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), seconds)
        return self.over.is_set()

    def _tell(self, judged: JudgedStorage) -> None:
        filling, text = self.waiting.get(judged.place), words(judged.state)
        if filling is not None and text is not None:
            self.lines.tell(f"storage {filling.alias}", text, filling.resource)


def words(state: StorageState) -> str | None:
    """Say in a line how far a volume is filled; None while its Job is not there, or done."""
    prepare = state.prepare
    if prepare.phase in {Prepare.NOT_REQUESTED, Prepare.SUCCEEDED} or prepare.reason == "NoJob":
        return None
    said = " ".join(f"{prepare.phase.value}, {prepare.reason}: {prepare.message}".split()).removesuffix(":")
    return printable(said)


def tell(fillings: Iterable[Filling], look: Look) -> "asyncio.Task[None] | None":
    """Tell, while the program runs, how far the volumes are; nothing in a preview or offline.

    To be called within the program's event loop; whoever keeps the task keeps it from being collected.
    """
    waiting = {filling.place: filling for filling in fillings}
    if not waiting or pulumi.runtime.is_dry_run() or cluster.offline():
        return None
    teller = Teller(look, waiting)
    for place, filling in list(waiting.items()):
        made: pulumi.Output[str] = filling.job.id.recover(lambda _: "")
        made.apply(partial(_end, teller, place))
    return asyncio.get_running_loop().create_task(teller.run())


def _end(teller: Teller, place: StoragePlace, _: str) -> None:
    teller.end(place)
