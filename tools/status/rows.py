"""A row for each unit: for people as a table, for programs as an object."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lightkube import Client
from status.failures import printable
from status.objects import moment
from status.states import Ssh, State

from components.survey import Place, states, survey
from stacks.resolve import Stack

TITLES = ("TENANT", "UNIT", "PHASE", "SSH", "GPUS", "AGE", "RESTARTS", "REASON")

LONGEST_REASON = 160
"""Characters of a reason in the table; the whole is in the JSON."""


@dataclass(frozen=True)
class Row:
    """One unit and its state."""

    tenant: str
    unit: str
    namespace: str
    state: State

    @property
    def plain(self) -> dict[str, Any]:
        """Give it for programs."""
        unit, ssh = self.state.unit, self.state.ssh
        return {
            "kind": "unit",
            "tenant": self.tenant,
            "unit": self.unit,
            "namespace": self.namespace,
            "phase": unit.phase.value,
            "exitCode": unit.code,
            "reason": unit.reason,
            "message": unit.message,
            "ssh": ssh.state.value,
            "sshReason": ssh.reason,
            "sshMessage": ssh.message,
            "gpus": self.state.gpus,
            "restarts": self.state.restarts,
            "created": self.state.created or None,
        }

    def words(self, now: datetime) -> tuple[str, ...]:
        """Give it for people, in the order of the titles."""
        state = self.state
        age = _age(now, state.created)
        numbers = (str(state.gpus), age, str(state.restarts))
        return (self.tenant, self.unit, state.unit.text, state.ssh.state.value, *numbers, reason(state))


def rows(client: Client, stack: Stack) -> Iterator[Row]:
    """Judge every unit of the stack file, in its order, then what the cluster has beside them."""
    listed = {Place(unit.namespace, unit.name): unit.tenant for unit in stack.units.values()}
    within, ssh = (place.namespace for place in listed), stack.config.ssh
    found = survey(client, stack.owner, within, tier=ssh.server is None, gated=ssh.gated)
    beside = {place: place.namespace for place in sorted(found.deployments) if place not in listed}
    tenants = {**listed, **beside}
    for judged in states(client, found, tenants):
        place = judged.place
        yield Row(tenants[place], place.unit, place.namespace, judged.state)


def reason(state: State) -> str:
    """Say in one line what is to be said: of the unit, and of SSH where that is something else."""
    unit, ssh = state.unit, state.ssh
    said = [f"{unit.reason}: {unit.message}" if unit.message else "" if unit.reason == "UnitReady" else unit.reason]
    if ssh.message and ssh.message != unit.message:
        said.append(f"ssh: {ssh.message}")
    elif ssh.state is Ssh.PENDING and ssh.reason != unit.reason:
        said.append(f"ssh: {ssh.reason}")
    return in_a_line("; ".join(filter(None, said)))


def in_a_line(text: str) -> str:
    """Give *text* as a cell of the table."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= LONGEST_REASON else f"{line[: LONGEST_REASON - 1]}…"


def table(found: Iterable[Row], now: datetime | None = None) -> str:
    """Lay the rows out in columns."""
    return columns([TITLES, *(row.words(now or datetime.now(UTC)) for row in found)])


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Lay *lines* of as many words each out in columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_padded(line, widths) for line in lines)


def _padded(line: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()


def _age(now: datetime, created: str) -> str:
    begun = moment(created)
    if begun is None:
        return "-"
    passed = max(now - begun, timedelta())
    hours, seconds = divmod(int(passed.total_seconds()), 3600)
    if hours >= 48:  # noqa: PLR2004 - two days, where hours begin to be many
        return f"{hours // 24}d"
    return f"{hours}h{seconds // 60:02}m" if hours else f"{seconds // 60}m{seconds % 60:02}s"
