"""What a run found, for people (a table, one sentence) and for programs (one line of JSON)."""

import json
from collections.abc import Sequence

from probe.rounds import Row

SHOWN = 12
"""Wrong rows in the pod's termination message, of which a terminal or an engine shows 2 KiB."""

HEADER = ("target", "where", "expected", "found", "why")


def table(rows: Sequence[Row]) -> str:
    """Give a line for each row, the wrong ones first and marked."""
    ordered = sorted(rows, key=lambda row: row.right)
    cells = [HEADER, *(_cells(row) for row in ordered)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


def _cells(row: Row) -> tuple[str, ...]:
    target, answer = row.target, row.answer
    found = f"{answer.found if row.right else answer.found.upper()} ({answer.how})"
    return (target.name, target.where, target.expect, found, target.why)


def verdict(rows: Sequence[Row]) -> str:
    """Give the sentence that matters, and where the walls do not hold the wrong rows after it."""
    wrong = [row for row in rows if not row.right]
    if not wrong:
        return f"the walls hold: {len(rows)} targets are as they should be"
    lines = [f"  {row.target.name} ({row.target.where}): {row.answer.found}, {row.answer.how}" for row in wrong]
    more = [f"  and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "\n".join([_sentence(wrong), *lines[:SHOWN], *more])


def _sentence(wrong: Sequence[Row]) -> str:
    if answering := sum(row.answer.found == "open" for row in wrong):
        return f"NetworkPolicies are not enforced: {answering} forbidden targets answer a pod in a tenant's walls"
    if any(row.target.expect == "open" for row in wrong):
        return "what must be open is not, so that what is closed proves nothing"
    return "what could not be tried is not known to be closed"


def summary(rows: Sequence[Row], seconds: float, windows: dict[str, float | None]) -> str:
    """Give one line of JSON: ok, targets, wrong (name and what was found), seconds, and *windows* in milliseconds."""
    wrong = {row.target.name: row.answer.found for row in rows if not row.right}
    measured = {name: None if age is None else round(age * 1000) for name, age in windows.items()}
    found = {"ok": not wrong, "targets": len(rows), "wrong": wrong, "seconds": round(seconds, 1), **measured}
    return json.dumps(found)
