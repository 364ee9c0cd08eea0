"""What a run has measured, and what that says: medians, ratios of things measured side by side, slopes."""

from collections.abc import Mapping, Sequence
from statistics import linear_regression, median
from typing import NamedTuple


class Cost(NamedTuple):
    """One run of one program."""

    wall: float
    """Seconds on the clock."""
    cpu: float
    """Seconds of processor that it and all that it started used."""
    load: float
    """Load average of the last minute at its end."""


class Row(NamedTuple):
    """One line of the report; a goal of None is a figure that has none."""

    what: str
    shown: str
    value: float
    goal: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """Say whether the goal is met, which is an upper bound."""
        if self.goal is None:
            return ""
        return "met" if self.value <= self.goal else "missed"


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Compare two programs that were run in turns: (median of the rounds' ratios, ratio of the best runs).

    What slows the machine for a while slows both runs of a round, and so leaves the first alone; the second is what
    a quiet moment of each shows.
    """
    return median(a / b for a, b in zip(ours, theirs, strict=True)), min(ours) / min(theirs)


def bend(costs: Mapping[int, float], small: int) -> float:
    """Compare the cost of a unit above *small* units with that up to it: 1 on a straight line, 3 where it triples.

    *costs* maps numbers of units to seconds, of which the start of the programs is no part: only slopes count.
    """
    few = sorted(size for size in costs if size <= small)
    largest = max(costs)
    below = linear_regression(few, [costs[size] for size in few]).slope
    return (costs[largest] - costs[few[-1]]) / (largest - few[-1]) / below


def load_note(loads: Sequence[float]) -> str:
    """Say how busy the machine was."""
    return f"load {min(loads):.1f}-{max(loads):.1f}"


def table(rows: Sequence[Row]) -> str:
    """Lay *rows* out for a terminal."""
    cells = [
        (row.what, row.shown, "" if row.goal is None else f"<= {row.goal:g}", row.verdict, row.note) for row in rows
    ]
    head = ("figure", "measured", "goal", "verdict", "note")
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    lines = (head, *cells)
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)
