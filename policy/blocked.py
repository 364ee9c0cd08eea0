"""What a peer reaches of the addresses that no tenant may reach: as sets of addresses, however they are written."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from policy.baseline import BLOCKED_V4, BLOCKED_V6, METADATA
from policy.ranges import Network, Span, cidrs, left_open, network, span, spans, within

_NAT64: Final = int.from_bytes(bytes.fromhex("0064ff9b") + bytes(12))
"""64:ff9b::/96 (RFC 6052): where NAT64 is on, each metadata address is reached through it, too."""


class Reach(NamedTuple):
    """What a peer leaves open: metadata addresses, blocked ranges, and whether it lies in one blocked range whole."""

    metadata: tuple[str, ...]
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
        return Reach((), (), inside=False)
    bounds, version = span(whole), whole.version
    closed = spans(networks(excepts), version)
    ranges = within(_blocked(site, version), bounds)
    open_metadata = left_open(within(_metadata(version), bounds), closed)
    return Reach(
        tuple(text for stretch in open_metadata for text in cidrs(stretch, version)),
        tuple(text for stretch in left_open(ranges, closed) for text in cidrs(stretch, version)),
        inside=ranges == [bounds],
    )


@lru_cache(maxsize=1024)
def _blocked(site: tuple[str, ...], version: int) -> tuple[Span, ...]:
    return tuple(spans(networks((*BLOCKED_V4, *BLOCKED_V6, *site)), version))


@lru_cache(maxsize=2)
def _metadata(version: int) -> tuple[Span, ...]:
    known = networks(METADATA)
    translated = [(_NAT64 + first, _NAT64 + last) for first, last in spans(known, 4)] if version == 6 else []  # noqa: PLR2004
    return tuple(sorted((*spans(known, version), *translated)))
