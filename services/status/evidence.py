"""What a unit's tunnel client says of its links: the only evidence that a login gets through."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

MINUTES_SECONDS = 150
"""How far back a reader looks: each server is spoken of once a minute at least, whatever happens."""

LINES = 1000
"""Enough for those minutes: nine servers, a chatty frpc, and the lines on sessions that a unit may cause."""

ANNOUNCED = "announced"


@dataclass(frozen=True)
class Link:
    """How the unit stands with one server."""

    server: str
    state: str
    """announced | idle | refused | down | unknown"""
    reason: str = ""

    @property
    def text(self) -> str:
        """Say it in a line."""
        return f"{self.server} {self.state}" + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True)
class Evidence:
    """The newest word on each server that is still on the unit's list."""

    links: tuple[Link, ...] = ()
    complaint: str = ""
    """Why it has no links, where the tunnel client says so."""
    host: str = ""
    """What it announces; empty: it does not say."""

    @property
    def announced(self) -> tuple[Link, ...]:
        """Give the links by which a login gets through."""
        return tuple(link for link in self.links if link.state == ANNOUNCED)

    @property
    def whole(self) -> bool:
        """Say whether a login gets through by every server."""
        return bool(self.links) and len(self.announced) == len(self.links)


def evidence(lines: Iterable[str]) -> Evidence:
    """Read the tunnel client's log; what is no line of ours counts for nothing."""
    newest: dict[str, Link] = {}
    listed: list[str] = []
    complaint = host = ""
    for said in filter(None, map(_object, lines)):
        match said:
            case {"event": "link", "server": str(server), "state": str(state), "servers": list(listed)}:
                newest[server] = Link(server, state, str(said.get("reason", "")))
                complaint, host = "", str(said.get("host", ""))
            case {"event": "waiting-for-files", "reason": str(complaint)}:
                pass
            case _:
                continue
    return Evidence(tuple(newest[name] for name in listed if name in newest), complaint, host)


def _object(line: str) -> dict[str, object] | None:
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None
