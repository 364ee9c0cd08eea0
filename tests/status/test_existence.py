"""No announced host opens what the gate or sshd refuses: a unit's Service and its list of keys are looked at, too."""

from dataclasses import replace
from typing import Any

import pytest
from status import existence
from status.evidence import Evidence, evidence
from status.existence import turned_away
from status.objects import Object, Seen
from status.states import Ssh, state_of

from components import names
from components.gpu_unit import unit_manifests
from components.user_ca import UserCaSpec, login_files
from tests.components.test_unit import SECRETS, a_unit
from tests.services.test_view import TRAINER, UNSEEN, a_view, refusal, service
from tests.services.world import OWNER, labels
from tests.stack_files import KEY
from tests.status.objects import RUNNING, container, deployment, link, pod

META = {"name": "unit-trainer", "namespace": "lab-a", "labels": labels(OWNER, "unit")}
KEYS: Object = {"metadata": {**META, "name": "unit-trainer-keys"}, "data": {"authorized_keys": "ssh-ed25519 A a"}}
OWN = service("unit-trainer", TRAINER.host)
LOG = (link("frps-0", "announced", servers=("frps-0",), host=TRAINER.host),)

ANNOUNCED = Seen(
    deployment(metadata=META),
    (pod(container("tunnel", RUNNING), container("unit", RUNNING)),),
    log=LOG,
    services=(OWN,),
    keys=(KEYS,),
)

GATE: dict[str, list[dict[str, Any]]] = {
    **UNSEEN,
    "as it is": [OWN],
    "another unit beside it": [OWN, service("unit-other", "other.lab-a.ssh.example.test")],
    "another that says its host": [OWN, service("unit-other", TRAINER.host)],
    "another stack's that says its host": [OWN, service("unit-other", TRAINER.host, owner="prod")],
    "nobody's that says its host": [OWN, service("unit-other", TRAINER.host, labels={})],
    "one on its way out that says its host": [OWN, service("unit-other", TRAINER.host, deletionTimestamp="2026")],
}
"""Services of the cluster, as the gate's own tests have them, and some that lie beside the unit's."""


@pytest.mark.parametrize("services", GATE.values(), ids=GATE)
def test_what_the_gate_refuses_is_not_reachable_and_nothing_else(services: list[dict[str, Any]]) -> None:
    """The gate's rule and the state's are one rule: each Service that the one refuses, the other calls Pending."""
    view = a_view()
    view.services.replace(services)
    here = tuple(one for one in services if one["metadata"]["namespace"] == "lab-a")
    ssh = state_of(replace(ANNOUNCED, services=here)).ssh

    assert (ssh.state is Ssh.PENDING) == bool(refusal(view))
    assert (ssh.reason in existence.BESIDE) == bool(refusal(view))


def emptied(data: dict[str, str] | None) -> dict[str, Any]:
    """Have *data* in place of what the ConfigMap of keys has."""
    return {"keys": ({**KEYS, "data": data},)}


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "as it is": ({}, "Announced", ""),
    "no Service": ({"services": ()}, "NoService", "`make up REFRESH=1`"),
    "a Service of another host": ({"services": (service("unit-trainer", "x.lab-a.y"),)}, "OtherHost", "'x.lab-a.y'"),
    "a twin": ({"services": (OWN, service("unit-b", TRAINER.host))}, "HostTwice", "unit-b says its host"),
    "no keys": ({"keys": ()}, "NoKeys", "unit-trainer-keys is not there; `make up REFRESH=1`"),
    "another unit's keys": ({"keys": ({"metadata": {"name": "unit-b-keys"}},)}, "NoKeys", "is not there"),
    "keys on their way out": (
        {"keys": ({**KEYS, "metadata": {**KEYS["metadata"], "deletionTimestamp": "2026"}},)},
        "NoKeys",
        "is not there",
    ),
    "emptied keys": (emptied(None), "NoKeys", "neither key nor CA; `make up REFRESH=1`"),
    "a blank list": (emptied({"authorized_keys": ""}), "NoKeys", "neither key nor CA"),
    "comments alone": (emptied({"authorized_keys": " \n  # ssh-ed25519 A a\n"}), "NoKeys", "neither key nor CA"),
    "a blank list of CAs, too": (emptied({"authorized_keys": "", "user_ca_keys": "# A\n"}), "NoKeys", "nor CA"),
    "a CA alone": (emptied({"authorized_keys": "", "user_ca_keys": "ssh-ed25519 A\n"}), "Announced", ""),
    "a key below a comment": (emptied({"authorized_keys": "# a\nssh-ed25519 A a\n"}), "Announced", ""),
    "not to be seen": ({"services": None, "keys": None}, "Announced", ""),
    "a shut tier first": ({"services": (), "tier": ()}, "NoTunnelServer", ""),
    "its own trouble first": ({"services": (), "log": (link("frps-1", "down"),)}, "NotConnected", ""),
}


@pytest.mark.parametrize(("more", "reason", "message"), REFUSED.values(), ids=REFUSED)
def test_the_reason_says_what_to_do(more: dict[str, Any], reason: str, message: str) -> None:
    """Whoever reads it knows which object is missing and how it comes back; what may not be seen accuses nobody."""
    ssh = state_of(replace(ANNOUNCED, **more)).ssh

    assert ssh.reason == reason
    assert message in ssh.message


@pytest.mark.parametrize(("pods", "reason"), [(ANNOUNCED.pods, "Terminating"), ((), "NotRunning")])
def test_a_unit_that_is_stopped_is_told_as_such(pods: tuple[Object, ...], reason: str) -> None:
    """Its Service says no host, so that the gate refuses it; that is no trouble, and nothing is to be brought back."""
    made = unit_manifests(a_unit(running=False), SECRETS)
    state = state_of(replace(ANNOUNCED, deployment=made["deployment"], pods=pods, services=(made["service"],)))

    assert (state.ssh.state, state.ssh.reason) == (Ssh.PENDING, reason)
    assert state.ssh.message == state.unit.message


def test_a_tunnel_client_that_names_no_host_is_believed() -> None:
    """One of an older image says none: its Service must be there and name one, whichever."""
    old = link("frps-0", "announced", servers=("frps-0",))

    assert evidence([old]) == Evidence(evidence(LOG).links)
    assert turned_away(ANNOUNCED, "") is None
    assert turned_away(replace(ANNOUNCED, services=(service("unit-trainer", ""),)), "") is not None


def test_the_words_are_those_of_the_components() -> None:
    """What is looked at is what the program makes."""
    made = unit_manifests(a_unit(), SECRETS)

    assert (existence.OWNER_LABEL, existence.HOST_ANNOTATION) == (names.OWNER_LABEL, names.HOST_ANNOTATION)
    assert made["keys"]["metadata"]["name"] == made["deployment"]["metadata"]["name"] + existence.KEYS_SUFFIX
    assert existence.KEYS_FILE in made["keys"]["data"]
    assert existence.CA_FILE in login_files((), UserCaSpec(keys=(KEY,)), "host")
    assert made["service"]["metadata"]["name"] == made["deployment"]["metadata"]["name"]
