"""What `up` tells while volumes are filled, and that it holds nobody up."""

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from status.storage_objects import StorageSeen
from status.storage_states import storage_state

from components import filling, telling
from components.cluster import UnreachableError
from components.filling import Filling, Teller, tell
from components.storage_survey import JudgedStorage, StoragePlace
from tests.status.objects import RUNNING, container, unscheduled
from tests.status.test_storage_states import DONE_JOB, claim, job, pod

DATA, HOME = StoragePlace("lab-a", "data"), StoragePlace("lab-a", "home")
NOWHERE = StorageSeen(claim(), (job(),), (pod(phase="Pending", conditions=unscheduled("no room\nanywhere")),))
FILLS = StorageSeen(claim(), (job(),), (pod(container("prepare", RUNNING)),))
DONE = StorageSeen(claim(), (DONE_JOB,))
LATER = StorageSeen(claim())


class Cluster:
    """Says what is listed, one word per look; with the last, the engine is done."""

    def __init__(self, *words: StorageSeen | Exception) -> None:
        self.words = list(words)
        self.said = threading.Event()
        self.looks = 0
        if not words:
            self.said.set()

    def __call__(self, places: Iterable[StoragePlace]) -> list[JudgedStorage]:
        """Judge the first storage by the next word, the others as filled."""
        first, *others = places
        self.looks += 1
        word = self.words.pop(0) if self.words else LATER
        if not self.words:
            self.said.set()
        if isinstance(word, Exception):
            raise word
        return [
            JudgedStorage(first, word, storage_state(word)),
            *(JudgedStorage(place, DONE, storage_state(DONE)) for place in others),
        ]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect what is told; nobody rests."""
    found: list[str] = []
    monkeypatch.setattr("pulumi.log.info", lambda text, _=None: found.append(text))
    monkeypatch.setattr(filling, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(filling, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(telling, "REST", 0)
    return found


def run(cluster: Cluster, *places: StoragePlace, clock: Any = lambda: 0.0) -> None:
    """Tell until the cluster has said its words, when the engine is done with everything."""
    nothing: Any = None

    async def all_of_it() -> None:
        waiting = {place: Filling(f"{place.storage}.lab-a", place, nothing, nothing) for place in places}
        teller = Teller(cluster, waiting, clock=clock)
        task = asyncio.create_task(teller.run())
        await asyncio.to_thread(cluster.said.wait)
        for place in places:
            teller.end(place)
        await task

    asyncio.run(all_of_it())


def test_what_a_job_waits_for_is_told_once(told: list[str]) -> None:
    """A line where something is news, in one line; a Job that is not there yet, and one that is done, need none."""
    run(Cluster(LATER, NOWHERE, NOWHERE, FILLS, FILLS, DONE, DONE), DATA, HOME)

    assert told == [
        "storage data.lab-a: Pending, Unschedulable: no room anywhere",
        "storage data.lab-a: Running, Preparing",
    ]


def test_what_is_told_plays_no_tricks_with_a_terminal(told: list[str]) -> None:
    """Whoever wrote the words of a cluster, a line stays a line."""
    odd = StorageSeen(claim(), (job(),), (pod(phase="Pending", conditions=unscheduled("no\x1b[2J\r\nroom")),))
    run(Cluster(odd, DONE), DATA)

    assert told == ["storage data.lab-a: Pending, Unschedulable: no\\x1b[2J room"]


def test_it_is_told_again_every_so_often(told: list[str]) -> None:
    """Hours of work are no hours of silence."""
    times = iter(range(0, 10_000, 4))
    run(Cluster(*[FILLS] * 9), DATA, clock=lambda: float(next(times)))

    assert 2 <= len(told) < 9
    assert set(told) == {"storage data.lab-a: Running, Preparing"}


def test_a_cluster_that_does_not_answer_ends_nothing(told: list[str]) -> None:
    """The engine will tell; the next look may be answered."""
    run(Cluster(UnreachableError("away"), FILLS, FILLS), DATA)

    assert told == ["storage data.lab-a: Running, Preparing"]


def test_who_is_done_at_once_is_not_looked_at(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack whose volumes are filled costs no question, and its end is waited for by nobody."""
    monkeypatch.setattr(filling, "FIRST_SECONDS", 3600)
    cluster = Cluster()
    run(cluster, DATA)

    assert (cluster.looks, told) == (0, [])


def test_nothing_is_told_of_nothing() -> None:
    """Without a volume to fill nothing runs beside the program, so that no loop is needed."""
    assert tell([], Cluster()) is None
