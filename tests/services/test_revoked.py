"""What ends with a unit, a key or a gate, and what does not: the gate with the pinned frps and frpc."""

import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.services.api import NAMESPACES
from tests.services.rude import Rude
from tests.services.test_frp import (
    BANNER,
    HOST,
    OTHER,
    alive,
    session,
    trainer,
    tunnels,
    wait_until_reached,
)
from tests.services.world import (
    GATE_KEY,
    OTHER_KEY,
    TOKEN,
    Authority,
    Frps,
    Gate,
    Tunnel,
    add_namespace,
    add_unit,
    claim,
    holds,
    metas,
    remove_unit,
    wait_for,
    wanted,
)

__all__ = ["trainer", "tunnels"]  # fixtures


@pytest.fixture
def plain(tmp_path: Path, authority: Authority, gate: Gate) -> Iterator[Frps]:
    """Start an frps that clients by hand speak to."""
    frps = Frps(tmp_path, authority, gate, "frps-plain")
    yield frps
    frps.process.end()


def rude(frps: Frps, said: dict[str, str], run_id: str = "") -> Rude:
    """Log in by hand with good certificates and a good token."""
    return Rude(frps.port, frps.authority.ca, TOKEN, said, run_id)


def gets_in(frps: Frps, said: dict[str, str]) -> bool:
    """Tell whether a login by hand is let in."""
    client = rude(frps, said)
    client.end()
    return not client.answer.get("error")


@pytest.mark.usefixtures("trainer")
def test_a_removed_unit_takes_no_new_session(frps: Frps, gate: Gate) -> None:
    """From the moment that its Service is gone; its open sessions live, and so does its frpc, which learns nothing."""
    with session(frps) as connection:
        remove_unit(gate.cluster, claim())
        wait_for(lambda: frps.greeting(HOST) == b"", "new sessions are refused")
        holds(lambda: alive(connection), "the open session lives", 1)
        assert "there is no unit 'trainer' in 'lab-a'" in gate.process.text
        frps.process.end()
        frps.start()
        wait_for(lambda: [e for e in gate.process.events("refused") if e["op"] == "Login"], "its login is refused")
        holds(lambda: b" 404 " in frps.status(HOST), "its host is unknown", 1)
    add_unit(gate.cluster, claim())
    wait_until_reached(frps)


@pytest.mark.usefixtures("trainer")
def test_a_removed_unit_cuts_nobody_else(frps: Frps, gate: Gate) -> None:
    """Another unit goes, and the session and the next one of this one do not notice."""
    with session(frps) as connection:
        remove_unit(gate.cluster, OTHER)
        holds(lambda: alive(connection), "the session lives", 1)
    assert frps.greeting(HOST) == BANNER


def test_a_secret_is_rotated_and_the_old_one_dropped(
    frps: Frps, gate: Gate, trainer: Tunnel, authority: Authority
) -> None:
    """The whole of a rotation: both keys, another token, the same unit; once the old key is gone, nothing is cut.

    The frp token is derived from the secret, too: a tunnel server that has the new one lets nobody in who has not read
    the new capability, which lies in the same Secret. So no client holds the old capability when the old key goes.
    """
    token = "the-next-token-of-this-test"
    gate.set_keys(OTHER_KEY, GATE_KEY)
    with session(frps) as connection:
        renewed = wanted(frps.server, authority, claim(), OTHER_KEY)
        trainer.mount(replace(renewed, access=replace(renewed.access, token=token)))
        wait_for(lambda: trainer.process.events("outdated"), "the unit sees its new Secret")
        assert alive(connection)
        assert [line["key"] for line in gate.process.events("session") if "key" in line] == ["previous"]
    frps.process.end()
    frps.set_token(token)
    frps.start()
    wait_until_reached(frps)
    assert "key" not in gate.process.events("session")[-1]
    with session(frps) as connection:
        gate.set_keys(OTHER_KEY)
        assert alive(connection)
        assert frps.greeting(HOST) == BANNER
        assert alive(connection)


@pytest.mark.usefixtures("trainer")
def test_who_kept_the_old_capability_is_out_when_its_key_is(frps: Frps, gate: Gate) -> None:
    """A rotation ends what a leaked secret gave: with the old key gone, its capability opens nothing more."""
    gate.set_keys(OTHER_KEY, GATE_KEY)
    assert frps.greeting(HOST) == BANNER
    gate.set_keys(OTHER_KEY)
    assert frps.greeting(HOST) == b""


def test_a_client_that_heeds_nothing_gains_nothing(plain: Frps) -> None:
    """Refused, it goes on: asks for others' hosts under its own and their names, and offers connections unasked."""
    with ExitStack() as stack:
        client = rude(plain, metas(OTHER))
        stack.callback(client.end)
        assert client.run_id
        for name, host in ((HOST, HOST), (OTHER.host, HOST), (HOST, OTHER.host), ("x", "*"), (OTHER.host, "*")):
            assert client.announce(name, host) != ""
        for _ in range(3):
            stack.callback(client.offer(client.run_id).close)
        assert b" 404 " in plain.status(HOST)
        assert b" 404 " in plain.status(OTHER.host)
        assert client.announce(OTHER.host, OTHER.host) == ""


def test_a_revoked_client_that_heeds_nothing_gets_no_session(plain: Frps, gate: Gate) -> None:
    """Its unit is gone, its connection is not: users that come are never handed to it, whatever it offers."""
    client = rude(plain, metas(OTHER))
    assert client.announce(OTHER.host, OTHER.host) == ""
    remove_unit(gate.cluster, OTHER)
    wait_for(
        lambda: not gets_in(plain, metas(OTHER)), "the gate to know"
    )  # a user who came before would be handed over
    offered = client.offer(client.run_id)
    offered.settimeout(1)
    _, user = plain.open(OTHER.host)
    with user, offered, pytest.raises(TimeoutError):
        offered.recv(1)
    assert client.announce(OTHER.host, OTHER.host) != ""
    client.end()


def test_a_stolen_run_id_takes_nothing_over(plain: Frps) -> None:
    """Who logs in with another's run id gets one of its own, and the other stays where it is."""
    victim = rude(plain, metas(claim()))
    assert victim.announce(HOST, HOST) == ""
    assert victim.run_id in plain.process.text
    thief = rude(plain, metas(OTHER), victim.run_id)
    assert thief.run_id not in ("", victim.run_id)
    assert victim.announce(HOST, HOST) != ""  # frps knows it still: the name is taken, by itself
    assert b" 404 " not in plain.status(HOST)
    thief.end()
    victim.end()


def test_a_login_by_hand_is_judged(plain: Frps) -> None:
    """Without a capability, or with that of a unit that is gone, of another key or stack, nobody gets in."""
    for said in ({}, metas(claim("gone")), metas(claim(), OTHER_KEY), metas(claim(owner="prod"))):
        assert not gets_in(plain, said)
    assert gets_in(plain, metas(claim()))


def test_two_stacks_on_one_cluster(tmp_path: Path, authority: Authority) -> None:
    """A second stack that the gate admits signs for its own namespaces alone, and a Service by hand changes nothing."""
    (tmp_path / "two").mkdir()
    gate = Gate(tmp_path / "two", authority, owners=("dev", "prod"))
    theirs, by_hand = claim("trainer", "lab-p", "prod"), claim("trainer", "by-hand", "prod")
    add_namespace(gate.cluster, "lab-p", "prod")
    add_unit(gate.cluster, theirs)
    gate.cluster.put(NAMESPACES, "by-hand", labels={"app.kubernetes.io/part-of": "gpu-runtime"})
    add_unit(gate.cluster, by_hand)
    frps = Frps(tmp_path / "two", authority, gate)
    try:
        wait_for(lambda: gets_in(frps, metas(theirs)), "the second stack's own unit is let in")
        for said in (claim(owner="prod"), by_hand, claim("trainer", "lab-p", "dev")):
            assert not gets_in(frps, metas(said))
        assert len(re.findall("there is no namespace", gate.process.text)) >= 3
    finally:
        frps.process.end()
        gate.end()


@pytest.mark.usefixtures("trainer")
def test_a_killed_gate_cuts_nothing_and_lets_nobody_in(frps: Frps, gate: Gate) -> None:
    """Killed in the middle of a session and started again without the API server: the session lives, nobody gets in."""
    port = gate.api.port
    with session(frps) as connection:
        gate.process.end(signal.SIGKILL)
        gate.api.end()
        gate.start(ready=False)
        assert frps.greeting(HOST) == b""
        assert alive(connection)
        gate.start_api(port)
        wait_for(lambda: frps.greeting(HOST) == BANNER, "new sessions are let in again")
        assert alive(connection)
