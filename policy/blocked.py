"""What a peer reaches of the addresses that no tenant may reach: as sets of addresses, however they are written."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from policy.baseline import BLOCKED, METADATA, SEALED
from policy.ranges import Network, Span, cidrs, left_open, network, span, spans, within


class Reach(NamedTuple):
    """What a peer leaves open: metadata, sealed, blocked ranges, and whether it lies in one blocked range whole."""

    metadata: tuple[str, ...]
    sealed: tuple[str, ...]
    blocked: tuple[str, ...]
    inside: bool


def networks(texts: Iterable[str]) -> list[Network]:
    """Return those of *texts* that the API server takes for ranges."""
    return [found for text in texts if (found := network(text)) is not None]


@lru_cache(maxsize=1024)
def unfit(cidr: str, excepts: tuple[str, ...]) -> int | None:
    """Return the index of the first of *excepts* that is no smaller part of *cidr*; None when each is one."""
    whole = network(cidr)
    for index, text in enumerate(excepts):
        part = network(text)
        if whole is None or part is None or part.version != whole.version or not _is_part(span(part), span(whole)):
            return index
    return None


def _is_part(inner: Span, outer: Span) -> bool:
    return inner != outer and outer[0] <= inner[0] and inner[1] <= outer[1]


@lru_cache(maxsize=1024)
def reach(cidr: str, excepts: tuple[str, ...], site: tuple[str, ...]) -> Reach:
    """Return what the peer *cidr* less *excepts* reaches of the built-in blocked ranges and those of the *site*."""
    whole = network(cidr)
    if whole is None:
        return Reach((), (), (), inside=False)
    bounds, version = span(whole), whole.version
    closed = spans(networks(excepts), version)
    tables = (tuple(METADATA), tuple(SEALED), (*BLOCKED, *site))
    ranges = [within(_spans(table, version), bounds) for table in tables]
    metadata, sealed, blocked = (_texts(left_open(found, closed), version) for found in ranges)
    return Reach(metadata, sealed, blocked, inside=ranges[-1] == [bounds])


def _texts(stretches: Iterable[Span], version: int) -> tuple[str, ...]:
    return tuple(text for stretch in stretches for text in cidrs(stretch, version))


@lru_cache(maxsize=1024)
def _spans(table: tuple[str, ...], version: int) -> tuple[Span, ...]:
    return tuple(spans(networks(table), version))
