"""Try everything in rounds, until one round is as it should be as a whole or the time is over."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from probe.age import age
from probe.targets import Target
from probe.tries import TRY_SECONDS, Answer, attempt, resolve

PAUSE_SECONDS = 0.05
"""Between rounds: the precision with which the last answer of a forbidden target is known."""

QUICK_SECONDS = 0.25
"""For what must be open, at first, and twice as long in each round: a first packet may be lost before the walls stand,
and what answers at all answers at once."""

SAY_SECONDS = 2.0
"""Between signs of life."""


@dataclass(frozen=True)
class Row:
    """A target and what came of it."""

    target: Target
    answer: Answer

    @property
    def right(self) -> bool:
        """Say whether it is as expected; unknown never is."""
        return self.answer.found == self.target.expect


@dataclass
class Probe:
    """The targets of one run; call ``run`` once."""

    targets: list[Target]
    deadline: float
    """Age of the process, in seconds, at which the last round ends."""
    domain: str | None
    """Of the cluster's Services."""
    say: Callable[[str], None]
    last_answer: float | None = None
    """Age, in seconds, at which a forbidden target last answered."""
    _addresses: dict[Target, tuple[str, ...]] = field(default_factory=dict)
    _said: float = 0.0
    _quick: float = QUICK_SECONDS

    async def run(self) -> list[Row]:
        """Give a row for each target: of the first round that was all right, else of the last."""
        while True:
            last = age() + 2 * TRY_SECONDS >= self.deadline
            rows = await self._round(whole=last)
            if last or (len(rows) == len(self.targets) and all(row.right for row in rows)):
                return sorted(rows, key=lambda row: self.targets.index(row.target))
            self._sign_of_life(rows)
            self._quick = min(2 * self._quick, TRY_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _round(self, *, whole: bool) -> list[Row]:
        """Try what is permitted, then what is forbidden: without a network all is closed, and that proves nothing.

        Unless it must be *whole*, end with the first row that is wrong.
        """
        rows: list[Row] = []
        for expected in ("open", "closed"):
            seconds = self._quick if expected == "open" and not whole else TRY_SECONDS
            tasks = [asyncio.create_task(self._try(t, seconds)) for t in self.targets if t.expect == expected]
            rows += await (asyncio.gather(*tasks) if whole else self._until_wrong(tasks))
            if not whole and not all(row.right for row in rows):
                break
        return rows

    async def _until_wrong(self, tasks: list[asyncio.Task[Row]]) -> list[Row]:
        rows: list[Row] = []
        for finished in asyncio.as_completed(tasks):
            rows.append(await finished)
            if not rows[-1].right:
                break
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return rows

    async def _try(self, target: Target, seconds: float) -> Row:
        addresses = self._addresses.get(target)
        if addresses is None:
            found = await resolve(target, self.domain)
            if isinstance(found, Answer):
                return Row(target, found)
            addresses = self._addresses[target] = found
        answer = await attempt(target, addresses, seconds)
        if (target.expect, answer.found) == ("closed", "open"):
            self.last_answer = age()
        return Row(target, answer)

    def _sign_of_life(self, rows: list[Row]) -> None:
        if age() - self._said < SAY_SECONDS:
            return
        self._said = age()
        wrong = ", ".join(f"{row.target.name} {row.answer.found}" for row in rows if not row.right)
        self.say(f"{self._said:.1f} s: {wrong}; trying again until {self.deadline:.0f} s")
