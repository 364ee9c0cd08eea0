"""`up` ends when the units that it made or changed have arrived; one that is broken for sure fails it, and says why.

The engine's own wait would be for the pod's readiness, which says nothing of a login, and it would tell a broken unit
by its timeout. So to the engine a unit's Deployment is there at once, a hook notes which of them changed, and one look
at the cluster, repeated, judges all that are waited for. The others go on while one is broken: the program fails last.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from textwrap import indent
from typing import Any, Protocol

import pulumi
from status.states import Phase

from components import cluster, names
from components.patience import Outcome, Wait, doing
from components.survey import Judged, Place
from components.telling import Lines, rest

MADE_AT_ONCE = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
"""Annotation of a Deployment that is there as soon as it is made; its deletion is waited for as ever."""

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Arriving:
    """A unit of this program: where it is, what it must do, and what its diagnostics are shown with."""

    alias: str
    place: Place
    timeout: float
    start_seconds: float
    resource: pulumi.Resource
    deployment: pulumi.CustomResource

    @property
    def words(self) -> str:
        """Name it as lines begin."""
        return f"unit {self.alias}"


class Look(Protocol):
    """Judges units by what the cluster says of them, with or without what their tunnel clients say."""

    def __call__(self, places: Iterable[Place], *, logs: bool) -> list[Judged]:
        """Raise UnreachableError when the cluster does not answer."""
        ...


@dataclass
class Waiting:
    """The units that are waited for, looked at together; all but the looks runs in the program's event loop."""

    look: Look
    clock: Callable[[], float] = time.monotonic
    pending: dict[Place, tuple[Arriving, Wait, "asyncio.Future[Outcome]"]] = field(default_factory=dict)
    task: "asyncio.Task[None] | None" = None

    def __post_init__(self) -> None:
        self.lines = Lines(self.clock)

    async def arrive(self, unit: Arriving) -> Outcome:
        """Wait for *unit*; its outcome is told with it."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        wait = Wait(unit.alias, unit.timeout, unit.start_seconds, self.clock())
        self.pending[unit.place] = unit, wait, future
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._poll())
        return await future

    async def _poll(self) -> None:
        while self.pending:
            places, begun = list(self.pending), self.clock()
            try:
                found = await asyncio.to_thread(self.look, places, logs=True)
            except cluster.UnreachableError as error:
                found = []
                self._lost(places, str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
                self._give_up(error)
                return
            for judged in found:
                self._judge(judged)
            await asyncio.sleep(rest(POLL_SECONDS, self.clock() - begun))

    def _judge(self, judged: Judged) -> None:
        unit, wait, future = self.pending[judged.place]
        outcome = wait.look(judged.seen, judged.state, self.clock())
        if outcome is None:
            self.lines.tell(unit.words, doing(judged.state), unit.resource)
            return
        del self.pending[judged.place]
        log = pulumi.log.error if not outcome.arrived else pulumi.log.warn if outcome.warning else pulumi.log.info
        log(f"{unit.words}: {outcome.message}", unit.resource)
        future.set_result(outcome)

    def _lost(self, places: Iterable[Place], reason: str) -> None:
        """Go on while the cluster does not answer, until a unit's time is over."""
        for place in places:
            unit, wait, future = self.pending[place]
            if self.clock() - wait.begun < wait.timeout:
                self.lines.tell(unit.words, f"the cluster does not answer: {reason}", unit.resource)
            else:
                del self.pending[place]
                future.set_result(Outcome(arrived=False, message=f"nobody knows: {reason}"))

    def _give_up(self, error: Exception) -> None:
        for _, _, future in self.pending.values():
            future.set_exception(error)
        self.pending.clear()


@dataclass
class Changed:
    """The Deployments that this run made, or whose pods it changed."""

    names: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, args: pulumi.ResourceHookArgs) -> None:
        """Take note of a Deployment; one whose metadata alone changed has the pods that it had."""
        if not args.old_inputs or args.old_inputs["spec"] != (args.new_inputs or {})["spec"]:
            with self.lock:
                self.names.add(args.name)


@cache
def _changes_of(_monitor: object) -> tuple[Changed, pulumi.ResourceHook]:
    changed = Changed()
    return changed, pulumi.ResourceHook("note-changed-unit", changed.note)


def note_changes() -> pulumi.ResourceHook:
    """Give the hook for ``after_create`` and ``after_update`` of a unit's Deployment: one for the whole program."""
    return _changes_of(pulumi.runtime.settings.get_monitor())[1]


class Failure(pulumi.ComponentResource):
    """A resource that is never made: its making fails with *message*, one failed step among others to the engine.

    A program that raises ends the run before the engine has removed what is no longer wanted; this does not.
    """

    def __init__(self, message: str) -> None:
        def fail(_: pulumi.ResourceHookArgs) -> None:
            raise RuntimeError(message)

        hook = pulumi.ResourceHook("units-arrive", fail)
        opts = pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_create=[hook]))
        super().__init__(names.component_type("Arrival"), "units", None, opts)


def demand(units: Iterable[Arriving], look: Look) -> None:
    """Have the program end only when each unit that it changed has arrived, and fail when one is broken for sure.

    Nothing is asked in a preview or offline.
    """
    if pulumi.runtime.is_dry_run() or cluster.offline():
        return
    changed = _changes_of(pulumi.runtime.settings.get_monitor())[0]
    listed, waiting = list(units), Waiting(look)
    outcomes = [_when_made(unit, partial(_arrive, waiting, changed)) for unit in listed]
    told: pulumi.Output[list[Outcome | None]] = pulumi.Output.all(*outcomes)
    _: pulumi.Output[int] = told.apply(partial(_conclude, listed, look))


def _when_made(unit: Arriving, then: Callable[..., Any]) -> "pulumi.Output[Outcome | None]":
    """Run *then* when the engine is done with the unit's Deployment, well or not."""
    made: pulumi.Output[Any] = unit.deployment.id.recover(lambda _: "")
    return made.apply(lambda _: then(unit))


async def _arrive(waiting: Waiting, changed: Changed, unit: Arriving) -> Outcome | None:
    return await waiting.arrive(unit) if f"{unit.alias}-deployment" in changed.names else None


async def _conclude(units: list[Arriving], look: Look, outcomes: list[Outcome | None]) -> int:
    """Tell of units that this run did not touch and that are in trouble, then fail for those that it broke.

    Give the number of those that arrived.
    """
    untouched = [unit for unit, outcome in zip(units, outcomes, strict=True) if outcome is None]
    if untouched:
        await _warn(untouched, look)
    broken = {unit.alias: o.message for unit, o in zip(units, outcomes, strict=True) if o and not o.arrived}
    if broken:
        said = "".join(f"\n  - {alias}: {indent(message, ' ' * 6).strip()}" for alias, message in broken.items())
        Failure(f"{len(broken)} of {len(units)} units do not work:{said}")
    return len(units) - len(untouched)


async def _warn(units: list[Arriving], look: Look) -> None:
    """Tell which of *units* are in trouble; not to know is no failure, since this run did nothing to them."""
    try:
        judged = await asyncio.to_thread(look, [unit.place for unit in units], logs=False)
    except cluster.UnreachableError as error:
        pulumi.log.warn(f"nobody knows how the units are that this run did not change: {error}")
        return
    for unit, found in zip(units, judged, strict=True):
        if found.state.unit.phase is Phase.FAILED:
            said = f"unit {unit.alias}, which this run did not change: {doing(found.state)}"
            pulumi.log.warn(said, unit.resource)
