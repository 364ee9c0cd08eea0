"""When a tunnel server that has started is sent logins: the judgement, and the companion beside real servers."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from entrance.frps import online, peer_hosts
from entrance.readiness import LONGEST_SECONDS, QUIET_SECONDS, UNKNOWN_SECONDS, Readiness

from tests.services.doors import Companion, list_servers
from tests.services.world import (
    Authority,
    Echo,
    Frps,
    Gate,
    Tunnel,
    claim,
    free_port,
    holds,
    wait_for,
    wanted,
)

A, B, C = (frozenset({name}) for name in "abc")
NONE = frozenset[str]()


def test_it_is_ready_once_it_holds_what_its_peers_hold() -> None:
    """One missing host of one ready peer is enough to wait; nobody's hosts are no reason to."""
    readiness = Readiness(0)

    assert not readiness.judge(1, A, [A | B, C])
    assert not readiness.judge(2, A | B, [A | B, C])
    assert readiness.judge(3, A | B | C, [A | B, C])
    assert Readiness(0).judge(0, NONE, [NONE, NONE])
    assert Readiness(0).judge(0, A, [NONE])


def test_it_waits_no_longer_than_this_for_the_last() -> None:
    """Once nobody new has come for a while, a host that never comes keeps it away no more."""
    readiness = Readiness(0)

    assert not readiness.judge(20, A, [A | B | C])
    assert not readiness.judge(40, A | B, [A | B | C])
    assert not readiness.judge(40 + QUIET_SECONDS - 1, A | B, [A | B | C])
    assert readiness.judge(40 + QUIET_SECONDS, A | B, [A | B | C])


def test_without_one_unit_it_waits_longer_but_not_for_ever() -> None:
    """Where not one unit has come, every login would be refused; but a tier never waits for ever."""
    readiness = Readiness(0)

    assert not readiness.judge(LONGEST_SECONDS - 1, C, [A | B])
    assert readiness.judge(LONGEST_SECONDS, C, [A | B])


def test_a_unit_that_comes_and_goes_delays_nothing() -> None:
    """A tenant whose unit flaps cannot push the end of the wait away."""
    readiness = Readiness(0)
    for second in range(int(QUIET_SECONDS)):
        assert not readiness.judge(second, A | B if second % 2 else A, [A | B | C])

    assert readiness.judge(1 + QUIET_SECONDS, A, [A | B | C])


def test_an_unknown_peer_is_waited_for_a_moment() -> None:
    """Who cannot be asked may hold anything; but a tier with a dead name server still starts."""
    readiness = Readiness(0)

    assert not readiness.judge(1, A, [A, None])
    assert readiness.judge(UNKNOWN_SECONDS, A, [A, None])


def test_once_ready_it_stays_ready() -> None:
    """Whatever tenants take away or bring to other servers, it is not made unready by that."""
    readiness = Readiness(0)
    readiness.judge(1, A, [A])

    assert readiness.judge(2, NONE, [A | B | C, None])


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"proxies": null}', b"<html>"])
def test_what_is_no_list_is_an_error(answer: bytes) -> None:
    """An answer that is not frps' list of proxies is none, not an empty one."""
    with pytest.raises(ValueError, match=r"frps lists|Expecting value"):
        online(answer)


def test_a_peer_that_cannot_be_asked_is_unknown() -> None:
    """Who refuses a connection may be a wall that opens in a moment: what is behind it is as unknown as a lost name."""
    assert peer_hosts("127.0.0.1", free_port()) is None
    assert peer_hosts("no-such-name.invalid", 1) is None


Look = Callable[[Frps], Companion]


@pytest.fixture
def companions(tmp_path: Path) -> Iterator[Look]:
    """Start companions that know of each other, each beside its frps."""
    file, ports = tmp_path / "servers.json", {}
    with ExitStack() as stack:

        def begin(beside: Frps) -> Companion:
            ports[beside.name] = free_port()
            list_servers(file, ports)
            made = Companion(beside, file, ports[beside.name])
            stack.callback(made.process.end)
            return made

        yield begin


def test_a_new_server_waits_for_the_units(
    tmp_path: Path, frps: Frps, gate: Gate, authority: Authority, sshd: Echo, companions: Look
) -> None:
    """The first is ready at once; a second only when the unit has come to it, and a restarted frps begins anew."""
    first = companions(frps)
    wait_for(lambda: first.ready, "the first server is ready")
    (tmp_path / "unit" / "mount").mkdir(parents=True)
    tunnel = Tunnel(tmp_path / "unit", sshd)
    second = Frps(tmp_path, authority, gate, "frps-1")
    try:
        only_first = wanted(frps.server, authority, claim())
        both = type(only_first)(only_first.unit, (frps.server, second.server), only_first.access)
        tunnel.mount(only_first)
        wait_for(lambda: first.hosts["hosts"] == [claim().host], "the first server holds the unit")
        late = companions(second)
        holds(lambda: not late.ready, "the second has not the unit yet", 3)
        tunnel.mount(both)
        wait_for(lambda: late.ready, "the second server is ready")
        tunnel.mount(only_first)
        wait_for(lambda: late.hosts["hosts"] == [], "the unit has left it")
        assert late.ready
        second.process.end(signal.SIGKILL)
        wait_for(lambda: not late.ready, "its frps is gone")
        second.start()
        holds(lambda: not late.ready, "the new frps has no unit", 3)
        tunnel.mount(both)
        wait_for(lambda: late.ready, "the unit has come back")
    finally:
        tunnel.process.end()
        second.process.end()
