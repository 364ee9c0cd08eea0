"""Whether a login works is also the tier's to say: no unit's own words open a door that is shut."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from status.evidence import MINUTES_SECONDS
from status.objects import Object, Seen
from status.states import Ssh, state_of
from status.tier import ENTRANCE, GATE, SERVICE_LABEL

from components import gate, tunnel
from tests.status.objects import BEGUN, RUNNING, container, deployment, link, pod

UP = pod(container("tunnel", RUNNING), container("unit", RUNNING))
ANNOUNCED = Seen(deployment(), (UP,), log=(link("frps-0", "announced"), link("frps-1", "announced")))
LOST = Seen(deployment(), (UP,), log=(link("frps-1", "down", "token mismatch"),))


YES, NO = {"ready": True}, {"ready": False}
UNSAID: dict[str, bool] = {}


def behind(service: str, *conditions: dict[str, bool]) -> Object:
    """Give an EndpointSlice of one of the tier's Services, with an endpoint for each of *conditions*."""
    endpoints = [{"conditions": said} for said in conditions]
    return {"metadata": {"labels": {SERVICE_LABEL: service}}, "endpoints": endpoints}


SERVERS, GATES = behind(ENTRANCE, NO, YES), behind(GATE, UNSAID)

TIERS: dict[str, tuple[Seen, tuple[Object, ...] | None, Ssh, str, str]] = {
    "open": (ANNOUNCED, (SERVERS, GATES), Ssh.REACHABLE, "Announced", ""),
    "in several slices": (ANNOUNCED, (behind(GATE, NO), GATES, SERVERS), Ssh.REACHABLE, "Announced", ""),
    "not to be seen": (ANNOUNCED, None, Ssh.REACHABLE, "Announced", ""),
    "no gate": (ANNOUNCED, (SERVERS, behind(GATE)), Ssh.PENDING, "NoGate", "new logins are refused"),
    "no gate that is ready": (ANNOUNCED, (SERVERS, behind(GATE, NO)), Ssh.PENDING, "NoGate", "sessions go on"),
    "no server": (ANNOUNCED, (behind(ENTRANCE, NO), GATES), Ssh.PENDING, "NoTunnelServer", "nobody new gets in"),
    "no Service": (ANNOUNCED, (), Ssh.PENDING, "NoTunnelServer", "no tunnel server is ready"),
    "no endpoints": (ANNOUNCED, (SERVERS, {**GATES, "endpoints": None}), Ssh.PENDING, "NoGate", "no gate answers"),
    "its own trouble first": (LOST, (), Ssh.PENDING, "NotConnected", "token mismatch"),
}


@pytest.mark.parametrize(("seen", "tier", "state", "reason", "message"), TIERS.values(), ids=TIERS)
def test_no_login_works_past_a_tier_that_is_shut(
    seen: Seen, tier: tuple[Object, ...] | None, state: Ssh, reason: str, message: str
) -> None:
    """A unit that is announced is reached while a tunnel server and a gate are ready, and not while one is missing."""
    ssh = state_of(replace(seen, tier=tier)).ssh

    assert (ssh.state, ssh.reason) == (state, reason)
    assert message in ssh.message


def test_the_services_are_those_of_the_tier() -> None:
    """What is looked at is what the platform makes."""
    assert (GATE, ENTRANCE) == (gate.GATE, tunnel.ENTRANCE)


@pytest.mark.parametrize(("seconds", "words"), [(20, "nothing yet"), (MINUTES_SECONDS + 1, "nothing lately")])
def test_a_new_tunnel_client_has_said_nothing_yet(seconds: int, words: str) -> None:
    """One that runs for less than the time that is looked back was never heard; an older one has fallen silent."""
    read = datetime.fromisoformat(BEGUN) + timedelta(seconds=seconds)

    assert words in state_of(replace(ANNOUNCED, log=(), read=read)).ssh.message
