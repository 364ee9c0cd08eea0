"""Sets of addresses: what the API server takes for a range, and what one set leaves open of another."""

from ipaddress import IPv4Network, ip_address, ip_network
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.blocked import reach, unfit
from policy.ranges import cidrs, left_open, network, span, spans, within

NETWORKS = st.builds(
    lambda address, length: IPv4Network((address, length), strict=False), st.integers(0, 255), st.integers(24, 32)
)


@pytest.mark.parametrize("text", ["10.0.0.0/8", "0.0.0.0/0", "::/0", "8.8.8.8/32", "2001:DB8::/32", "::fffe:0:0/95"])
def test_ranges(text: str) -> None:
    """Both families, in any case of the letters."""
    assert network(text) == ip_network(text)


@pytest.mark.parametrize(
    "text",
    [
        *("10.0.0.1/8", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/255.0.0.0", "010.0.0.0/8", "10.0.0.0/08", "10/8"),
        *("", "all", " 10.0.0.0/8", "10.0.0.0/8\n", "\u0663.0.0.0/8"),
        *("fe80::%eth0/128", "::ffff:0:0/96", "::ffff:10.0.0.0/104", "fe80::1/10"),
    ],
)
def test_no_ranges(text: str) -> None:
    """What Python might read and the API server refuses is no range."""
    assert network(text) is None


@settings(deadline=None)
@given(st.lists(NETWORKS), st.lists(NETWORKS))
def test_left_open_is_the_difference(wanted: list[IPv4Network], closed: list[IPv4Network]) -> None:
    """Address by address, whatever way the two sets are written."""
    found = {
        number for first, last in left_open(spans(wanted, 4), spans(closed, 4)) for number in range(first, last + 1)
    }
    has = [{int(address) for item in items for address in item} for items in (wanted, closed)]

    assert found == has[0] - has[1]


@settings(deadline=None)
@given(st.lists(NETWORKS), NETWORKS)
def test_within_is_the_common_part(stretches: list[IPv4Network], bounds: IPv4Network) -> None:
    """Address by address."""
    found = {number for first, last in within(spans(stretches, 4), span(bounds)) for number in range(first, last + 1)}

    assert found == {int(address) for item in stretches for address in item if address in bounds}


@settings(deadline=None)
@given(st.lists(NETWORKS))
def test_spans_are_as_few_as_can_be(networks: list[IPv4Network]) -> None:
    """Sorted, with a gap between each and the next, and the same addresses; the other family is left out."""
    found = spans([*networks, ip_network("::/8")], 4)

    assert all(last + 1 < first for (_, last), (first, _) in pairwise(found))
    assert {number for first, last in found for number in range(first, last + 1)} == {
        int(address) for item in networks for address in item
    }


def test_a_stretch_is_said_as_ranges() -> None:
    """Messages name ranges as one writes them."""
    assert cidrs((int(ip_address("10.0.0.0")), int(ip_address("10.0.2.255"))), 4) == ["10.0.0.0/23", "10.0.2.0/24"]
    assert cidrs((1, 1), 6) == ["::1/128"]


def test_a_peer_may_be_carved() -> None:
    """What lies in a blocked range is told from what only reaches one, and what is excepted is not reached."""
    assert reach("10.1.0.0/16", ("10.1.2.0/24",), ()).inside
    assert reach("10.0.0.0/7", (), ()).blocked == ("10.0.0.0/8",)
    assert not reach("10.0.0.0/7", (), ()).inside
    assert reach("10.0.0.0/7", (), ("11.0.0.0/8",)).inside
    assert reach("10.0.0.0/7", ("10.0.0.0/9", "10.128.0.0/9"), ()).blocked == ()


def test_unfit_exceptions_are_found_wherever_they_stand() -> None:
    """The first of many that the API server refuses is named."""
    assert unfit("0.0.0.0/0", ("10.0.0.0/8", "0.0.0.0/0", "::/0")) == 1
    assert unfit("0.0.0.0/0", ("10.0.0.0/8", "10.0.0.0/8")) is None
