"""Which units the gate believes there are."""

from typing import Any

import pytest
from gate.claim import Claim, RefusedError
from gate.view import NAMESPACES as NAMESPACES_KIND
from gate.view import SERVICES, View, follow
from watching.api_server import Kind

from components.gpu_unit import unit_manifests
from components.tenant import tenant_manifests
from tests.components.test_objects import TENANT
from tests.components.test_unit import SECRETS, a_unit
from tests.services.api import selects
from tests.services.world import OWNER, UNITS, claim, labels

TRAINER = claim()


def namespace(name: str, owner: str = OWNER, **meta: Any) -> dict[str, Any]:
    """Return a Namespace as the API server gives it, of its metadata alone."""
    return {"metadata": {"name": name, "labels": labels(owner, "tenant"), **meta}}


def service(name: str, host: str, at: str = "lab-a", owner: str = OWNER, **meta: Any) -> dict[str, Any]:
    """Return a unit's Service."""
    annotations = {"gpu-runtime/host": host}
    said = {"name": name, "namespace": at, "labels": labels(owner, "unit"), "annotations": annotations}
    return {"metadata": {**said, **meta}}


def a_view() -> View:
    """Return a view of UNITS."""
    view = View()
    view.namespaces.replace([namespace("lab-a")])
    view.services.replace([service(f"unit-{said.unit}", said.host) for said in UNITS])
    return view


def refusal(view: View, said: Claim = TRAINER) -> str:
    """Say why the trainer is refused, nothing where it is not."""
    try:
        view.demand(said)
    except RefusedError as refused:
        return str(refused)
    return ""


def test_a_unit_that_is_there_is_believed() -> None:
    """A unit is its Service, in a namespace of its stack, that says its host."""
    assert refusal(a_view()) == ""


def test_who_has_seen_nothing_believes_nobody() -> None:
    """Before both lists were read once, everything is refused and the view is not complete."""
    view = View()
    for table, found in ((view.namespaces, namespace("lab-a")), (view.services, service("unit-trainer", TRAINER.host))):
        assert ("not yet seen" in refusal(view), view.complete) == (True, False)
        table.replace([found])
    assert (refusal(view), view.complete) == ("", True)


NAMESPACES: dict[str, list[dict[str, Any]]] = {
    "gone": [],
    "of another stack": [namespace("lab-a", "prod")],
    "of nobody": [{"metadata": {"name": "lab-a"}}],
    "being deleted": [namespace("lab-a", deletionTimestamp="2026-11-21T00:00:00Z")],
    "of another name": [namespace("lab-b")],
}


@pytest.mark.parametrize("found", NAMESPACES.values(), ids=NAMESPACES.keys())
def test_the_namespace_must_be_the_stacks(found: list[dict[str, Any]]) -> None:
    """The label that the platform's owner put on the namespace decides, whatever a Service in it says."""
    view = a_view()
    view.namespaces.replace(found)
    assert refusal(view) == "there is no namespace 'lab-a' of stack 'dev'"


OTHER_HOST = claim("other").host

UNSEEN: dict[str, list[dict[str, Any]]] = {
    "gone": [],
    "in another namespace": [service("unit-trainer", TRAINER.host, "lab-b")],
    "of another name": [service("trainer", TRAINER.host)],
    "of another stack": [service("unit-trainer", TRAINER.host, owner="prod")],
    "of nobody": [{"metadata": {"name": "unit-trainer", "namespace": "lab-a"}}],
    "being deleted": [service("unit-trainer", TRAINER.host, deletionTimestamp="2026-11-21T00:00:00Z")],
    "without host": [service("unit-trainer", TRAINER.host, annotations={})],
    "with a host that is no text": [service("unit-trainer", TRAINER.host, annotations={"gpu-runtime/host": 7})],
    "with another host": [service("unit-trainer", OTHER_HOST)],
    "with the host in upper case": [service("unit-trainer", TRAINER.host.upper())],
    "with every host": [service("unit-trainer", "*")],
}


@pytest.mark.parametrize("found", UNSEEN.values(), ids=UNSEEN.keys())
def test_the_service_must_be_the_units(found: list[dict[str, Any]]) -> None:
    """A Service elsewhere, of another stack, on its way out or with another host is not the unit's."""
    view = a_view()
    view.services.replace(found)
    assert refusal(view).startswith(("there is no unit 'trainer'", "unit 'trainer' in 'lab-a' has another host"))


@pytest.mark.parametrize(("running", "said"), [(True, ""), (False, "has another host than")])
def test_a_unit_that_is_stopped_is_refused(*, running: bool, said: str) -> None:
    """What the program writes of a unit that shall not run is nothing that the gate admits anybody by."""
    unit, view = a_unit(running=running), a_view()
    view.namespaces.replace([namespace("lab-a", unit.owner)])
    view.services.replace([unit_manifests(unit, SECRETS)["service"]])
    refused = refusal(view, Claim(unit.owner, unit.namespace, unit.name, unit.host))
    assert bool(refused) == bool(said)
    assert said in refused


def test_of_two_that_say_one_host_neither_is_believed() -> None:
    """Within a namespace a host has one unit; what another namespace says of it takes nothing away."""
    view = a_view()
    view.services.change("ADDED", service("unit-mine", TRAINER.host, "lab-b"))
    assert refusal(view) == ""
    view.services.change("ADDED", service("unit-other", TRAINER.host))
    assert "another Service in 'lab-a' says host" in refusal(view)
    view.services.change("DELETED", service("unit-other", TRAINER.host))
    assert refusal(view) == ""


def test_a_change_is_one_object() -> None:
    """An event changes its object alone; one that loses its labels, or is being deleted, is gone."""
    lost: list[dict[str, Any]] = [{"labels": {}}, {"deletionTimestamp": "2026-11-21T00:00:00Z"}]
    for gone in lost:
        view = a_view()
        view.services.change("MODIFIED", service("unit-other", OTHER_HOST, **gone))
        assert list(view.services.known or {}) == [("lab-a", "unit-trainer")]
        view.services.change("MODIFIED", service("unit-other", OTHER_HOST))
        assert len(view.services.known or {}) == 2


def test_only_names_are_kept() -> None:
    """Whatever else an object has costs no memory, and a host is cut where no name could be longer."""
    view = a_view()
    view.services.replace([service("unit-trainer", "x" * 100_000, more="y" * 100_000)])
    assert len(repr(view.services.known)) < 1000


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        (NAMESPACES_KIND, tenant_manifests(TENANT)["namespace"]),
        (SERVICES, unit_manifests(a_unit(), SECRETS)["service"]),
    ],
)
def test_the_gate_finds_what_the_program_writes(kind: Kind, made: dict[str, Any]) -> None:
    """Labels, annotation and name of what the components make are those that the gate looks for."""
    assert selects(kind.selector, made["metadata"])
    table = follow(kind)
    table.replace([made])
    host = "trainer.lab-a.ssh.example.com" if kind == SERVICES else ""
    assert table.known == {("lab-a", "unit-trainer") if host else ("", "lab-a"): ("test", host)}
