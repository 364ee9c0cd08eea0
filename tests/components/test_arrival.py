"""The program waits for the units that it changed: what it tells, and how it ends."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from status.objects import Seen
from status.states import state_of

from components import arrival
from components.arrival import Arriving, Changed, Waiting, _arrive, _conclude
from components.cluster import UnreachableError
from components.patience import Outcome
from components.survey import Judged, Place
from components.unit_spec import UnitSpec
from tests.stack_files import KEY
from tests.status.objects import RUNNING, container, deployment, ended, pod, starting, waiting

RUNS = Seen(deployment(ssh=False), (pod(container("unit", RUNNING)),))
ENDS = starting(container("unit", ended(3, message="no data\nI give up")), ssh=False)
PULLS = starting(container("unit", waiting("ContainerCreating")), ssh=False)


@dataclass
class Cluster:
    """Says of each unit what is listed for it, one word per look; the last stays."""

    words: dict[str, list[Seen | Exception]]
    looks: list[tuple[list[str], bool]] = field(default_factory=list)

    def __call__(self, places: Iterable[Place], *, logs: bool) -> list[Judged]:
        listed = list(places)
        self.looks.append(([place.unit for place in listed], logs))
        return [self._judged(place) for place in listed]

    def _judged(self, place: Place) -> Judged:
        words = self.words[place.unit]
        word = words.pop(0) if len(words) > 1 else words[0]
        if isinstance(word, Exception):
            raise word
        return Judged(place, word, state_of(word))


def unit(name: str, timeout: float = 600, start: float = 0) -> Arriving:
    """Give a unit of lab-a."""
    nothing: Any = None
    return Arriving(f"{name}.lab-a", Place("lab-a", name), timeout, start, nothing, nothing)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Collect what is told: level and text."""
    found: list[tuple[str, str]] = []
    for level in ("info", "warn", "error"):
        monkeypatch.setattr(f"pulumi.log.{level}", lambda text, _=None, level=level: found.append((level, text)))
    monkeypatch.setattr(arrival, "POLL_SECONDS", 0.001)
    return found


def arrive(cluster: Cluster, *units: Arriving, changed: Iterable[str] | None = None) -> list[Outcome | None]:
    """Wait for all *units* at once."""
    waiting_for = Waiting(cluster)
    names = {f"{one.alias}-deployment" for one in units} if changed is None else set(changed)

    async def all_of_them() -> list[Outcome | None]:
        return await asyncio.gather(*(_arrive(waiting_for, Changed(names), one) for one in units))

    return asyncio.run(all_of_them())


def test_one_is_broken_and_the_other_arrives(told: list[tuple[str, str]]) -> None:
    """A broken unit is told at once with its last words, while the other is still waited for."""
    outcomes = arrive(Cluster({"bad": [ENDS], "slow": [PULLS, PULLS, RUNS]}), unit("bad", start=10), unit("slow"))

    assert [outcome.arrived for outcome in outcomes if outcome] == [False, True]
    assert told == [
        ("error", "unit bad.lab-a: its program ended with 3 after 3 s: no data\nI give up"),
        ("info", "unit slow.lab-a: Progressing, UnitProgressing: container unit starts"),
        ("info", "unit slow.lab-a: runs"),
    ]


def test_the_same_is_told_once(told: list[tuple[str, str]]) -> None:
    """Many looks that find the same say it once, whatever comes and goes between."""
    arrive(Cluster({"slow": [PULLS, PULLS, starting(ssh=False), PULLS, RUNS]}), unit("slow"))

    assert [text for _, text in told] == [
        "unit slow.lab-a: Progressing, UnitProgressing: container unit starts",
        "unit slow.lab-a: Progressing, UnitProgressing: its pod starts",
        "unit slow.lab-a: runs",
    ]


def test_what_did_not_change_is_not_waited_for(told: list[tuple[str, str]]) -> None:
    """A unit whose Deployment stayed is not looked at."""
    cluster = Cluster({"bad": [ENDS]})

    assert arrive(cluster, unit("bad"), changed=()) == [None]
    assert (cluster.looks, told) == ([], [])


def test_a_cluster_that_does_not_answer_for_a_moment_is_asked_again(told: list[tuple[str, str]]) -> None:
    """A look without an answer is told, and is no failure."""
    outcomes = arrive(Cluster({"slow": [UnreachableError("reset by peer"), RUNS]}), unit("slow"))

    assert outcomes == [Outcome(arrived=True, message="runs")]
    assert told[0] == ("info", "unit slow.lab-a: the cluster does not answer: reset by peer")


def test_a_cluster_that_answers_no_more_is_a_failure_at_the_timeout(told: list[tuple[str, str]]) -> None:
    """Unknown means no."""
    outcomes = arrive(Cluster({"slow": [UnreachableError("reset by peer")]}), unit("slow", timeout=0))

    assert outcomes == [Outcome(arrived=False, message="nobody knows: reset by peer")]
    assert told == []


def test_a_mistake_of_ours_leaves_nobody_waiting(told: list[tuple[str, str]]) -> None:
    """Should a look itself break, the run ends with that error."""
    with pytest.raises(KeyError):
        arrive(Cluster({"slow": [KeyError("metadata")]}), unit("slow"))
    assert told == []


def conclude(
    monkeypatch: pytest.MonkeyPatch, cluster: Cluster, units: list[Arriving], outcomes: list[Outcome | None]
) -> list[str]:
    """End the run; give the messages that it fails with."""
    failures: list[str] = []
    monkeypatch.setattr(arrival, "Failure", failures.append)
    asyncio.run(_conclude(units, cluster, outcomes))
    return failures


BROKEN = Outcome(arrived=False, message="its program ended with 3: no data\nI give up")
FINE = Outcome(arrived=True, message="runs")


def test_the_end_names_every_broken_unit(monkeypatch: pytest.MonkeyPatch, told: list[tuple[str, str]]) -> None:
    """One failure has them all, each with its reason."""
    units = [unit("a"), unit("b"), unit("c")]
    failures = conclude(monkeypatch, Cluster({}), units, [BROKEN, FINE, BROKEN])

    words = "its program ended with 3: no data\n      I give up"
    assert failures == [f"2 of 3 units do not work:\n  - a.lab-a: {words}\n  - c.lab-a: {words}"]
    assert told == []


def test_trouble_of_what_did_not_change_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, told: list[tuple[str, str]]
) -> None:
    """A unit that was broken before is told, and fails nothing; its log is not read for that."""
    cluster = Cluster({"old": [ENDS], "well": [RUNS]})
    failures = conclude(monkeypatch, cluster, [unit("old"), unit("well"), unit("new")], [None, None, FINE])

    assert failures == []
    assert cluster.looks == [(["old", "well"], False)]
    ((level, text),) = told
    assert level == "warn"
    assert text.startswith("unit old.lab-a, which this run did not change: Failed, ExitedWithError: its program ended")


def test_not_to_know_of_what_did_not_change_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, told: list[tuple[str, str]]
) -> None:
    """When the cluster does not answer in the end, what this run did is done all the same."""
    cluster = Cluster({"old": [UnreachableError("reset by peer")]})

    assert conclude(monkeypatch, cluster, [unit("old")], [None]) == []
    assert told == [("warn", "nobody knows how the units are that this run did not change: reset by peer")]


@pytest.mark.parametrize(
    ("old", "new", "noted"),
    [
        (None, {"spec": {"replicas": 1}}, True),
        ({"spec": {"replicas": 1}}, {"spec": {"replicas": 0}}, True),
        ({"spec": {"replicas": 1}, "metadata": {"a": 1}}, {"spec": {"replicas": 1}, "metadata": {"a": 2}}, False),
    ],
)
def test_a_change_is_one_of_the_pods(old: Any, new: Any, noted: bool) -> None:  # noqa: FBT001 - of a table
    """A Deployment that is made, or whose spec changed, is noted; one whose metadata changed is not."""
    args: Any = type("Args", (), {"name": "u-deployment", "old_inputs": old, "new_inputs": new})
    changed = Changed()
    changed.note(args)

    assert changed.names == ({"u-deployment"} if noted else set())


@pytest.mark.parametrize(
    ("said", "must_run"),
    [
        ({}, 0),
        ({"command": ["train"]}, 10),
        ({"command": ["train"], "startSeconds": 3}, 3),
        ({"ssh": {"authorizedKeys": [KEY]}}, 0),
        ({"ssh": {"authorizedKeys": [KEY], "mode": "image"}}, 10),
    ],
)
def test_only_our_idle_program_cannot_fail(said: dict[str, Any], must_run: int) -> None:
    """Any other program, an image's own as well, must run for a while before `up` calls the unit well."""
    spec = UnitSpec.model_validate({"flavor": "small", "image": "python", **said})

    assert spec.must_run == must_run
