"""Sets of addresses: CIDRs as the API server takes them, and what one set leaves open of another."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network, summarize_address_range
from typing import Final

Network = IPv4Network | IPv6Network
Span = tuple[int, int]
"""First and last address of a stretch, as numbers."""

_FORM: Final = re.compile(r"[0-9A-Fa-f:.]+/(0|[1-9][0-9]{0,2})")
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
"""IPv4 in IPv6's clothes: no API server takes it as a part of ::/0, and it reaches what the IPv4 address reaches."""


@lru_cache(maxsize=1 << 14)
def network(text: str) -> Network | None:
    """Return the range *text*, or None where the API server refuses it: no CIDR, host bits set, IPv4 within IPv6."""
    if not _FORM.fullmatch(text):
        return None
    try:
        found = ip_network(text)
    except ValueError:
        return None
    return None if isinstance(found, IPv6Network) and found.subnet_of(_MAPPED) else found


def span(of: Network) -> Span:
    """Return *of* as a stretch."""
    return int(of.network_address), int(of.broadcast_address)


def spans(networks: Iterable[Network], version: int) -> list[Span]:
    """Return those of *networks* that are of the IP *version*: sorted, none overlapping or touching the next.

    The library's collapse_addresses does the same and takes ten times as long, by way of each range's supernet.
    """
    found: list[Span] = []
    for first, last in sorted(span(item) for item in networks if item.version == version):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def within(stretches: Iterable[Span], bounds: Span) -> list[Span]:
    """Return the parts of *stretches* that lie in *bounds*."""
    low, high = bounds
    return [(max(first, low), min(last, high)) for first, last in stretches if first <= high and last >= low]


def left_open(wanted: Iterable[Span], closed: Sequence[Span]) -> Iterator[Span]:
    """Yield what *closed* does not cover of *wanted*; both are sorted and without overlap, and read once."""
    index = 0
    for start, last in wanted:
        first = start
        while first <= last:
            while index < len(closed) and closed[index][1] < first:
                index += 1
            if index == len(closed) or closed[index][0] > last:
                yield first, last
                break
            if closed[index][0] > first:
                yield first, closed[index][0] - 1
            first = closed[index][1] + 1


def cidrs(stretch: Span, version: int) -> list[str]:
    """Return *stretch* as CIDRs."""
    family = IPv4Network if version == 4 else IPv6Network  # noqa: PLR2004 - the version of the protocol
    first, last = (family(edge).network_address for edge in stretch)
    return [str(item) for item in summarize_address_range(first, last)]
