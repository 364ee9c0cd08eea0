"""Of objects with one name the cluster keeps one, and nobody knows which."""

from typing import Any

import pytest

from policy.baseline import TENANT_LABEL
from policy.checks import exposed_services, foreign_peers, twins
from policy.law import set_violations
from policy.plain import UNKNOWN
from tests.policy.cases import walls

PLATFORM = {"app.kubernetes.io/component": "platform"}
DOOR = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "door", "namespace": "lab-a"},
    "spec": {"type": "NodePort", "ports": [{"port": 80}]},
}


def space(labels: Any, name: str = "lab-a") -> dict[str, Any]:
    """Give a Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def found(check: Any, *manifests: Any) -> list[str]:
    """Name what *check* alone refuses."""
    return [violation.name for violation in set_violations(manifests, [check])]


@pytest.mark.parametrize("twin", [{TENANT_LABEL: "lab-a"}, {}, None, UNKNOWN, {**PLATFORM, TENANT_LABEL: ""}], ids=str)
def test_a_namespace_is_the_platforms_when_every_twin_says_so(twin: Any) -> None:
    """A second Namespace that says something else takes the platform's exemptions away, in either order."""
    assert found(exposed_services, space(PLATFORM), DOOR) == []
    assert found(exposed_services, space(PLATFORM), space(twin), DOOR) == ["door"]
    assert found(exposed_services, space(twin), space(PLATFORM), DOOR) == ["door"]


@pytest.mark.parametrize("other", ["lab-b", None, UNKNOWN])
def test_twins_of_other_tenants_are_of_none(other: Any) -> None:
    """Who claims a namespace a second time gets no way into it."""
    peer = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "jobs"}},
        "podSelector": {"matchLabels": {"app": "job"}},
    }
    spec = {"podSelector": {"matchLabels": {"app": "x"}}, "egress": [{"to": [peer], "ports": [{"port": 80}]}]}
    policy = {**walls(), "spec": spec}
    mine, jobs, twin = (space({TENANT_LABEL: tenant}, name) for name, tenant in [*_NAMED, ("jobs", other)])

    assert found(foreign_peers, mine, jobs, policy) == []
    assert found(foreign_peers, mine, jobs, twin, policy) == ["walls"]
    assert found(foreign_peers, mine, twin, jobs, policy) == ["walls"]


_NAMED: list[tuple[str, Any]] = [("lab-a", "lab-a"), ("jobs", "lab-a")]


@pytest.mark.parametrize(
    ("metadata", "seen"),
    [
        ({"name": UNKNOWN, "namespace": "lab-a"}, True),
        ({"name": "walls", "namespace": UNKNOWN}, True),
        ({"name": UNKNOWN, "namespace": UNKNOWN}, True),
        (UNKNOWN, True),
        ({"name": UNKNOWN, "namespace": "lab-b"}, False),
        ({"name": "other", "namespace": UNKNOWN}, False),
        ({"generateName": "walls", "namespace": "lab-a"}, False),
    ],
)
def test_what_may_be_a_twin_is_refused(metadata: Any, *, seen: bool) -> None:
    """A policy of which name or namespace is not known may replace the one that closes the namespace."""
    assert bool(found(twins, walls(), {**walls(), "metadata": metadata})) == seen
