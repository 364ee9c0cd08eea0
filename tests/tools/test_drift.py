"""Policies in the cluster are those of the stack: one that is gone, changed or somebody else's is named."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from lightkube import ApiError, codecs

from components.model import Manifest
from stacks.load import parse
from stacks.resolve import Stack
from tests.stacks.test_server import PROD
from tools.probe.drift import differing

MANIFESTS = Stack(parse(PROD, {"gpu-runtime:secret"}), "prod").manifests()
POLICIES = [one for one in MANIFESTS if one["kind"] == "NetworkPolicy"]
HOME = "gpu-lab-a"


@dataclass
class Cluster:
    """Stands for lightkube's client: what it lists are policies."""

    there: list[Manifest]
    all_at_once: bool = True

    def list(self, kind: type, *, namespace: str) -> Iterator[Any]:
        assert kind.__name__ == "NetworkPolicy"
        if namespace == "*" and not self.all_at_once:
            raise ApiError(response=Refusal())  # type: ignore[arg-type]
        return iter(codecs.from_dict(one) for one in self.there if namespace in ("*", one["metadata"]["namespace"]))


class Refusal:
    """Stands for an answer of the API server that refuses."""

    def json(self) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Status", "code": 403, "message": "forbidden"}


def policy(name: str, namespace: str, **rules: Any) -> Manifest:
    """Give a policy that is none of the stack's."""
    meta = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta,
        "spec": {"podSelector": {}, **rules},
    }


def found(there: list[Manifest], *, all_at_once: bool = True) -> list[str]:
    """Say what differs."""
    return list(differing(Cluster(there, all_at_once), MANIFESTS))  # type: ignore[arg-type]


@pytest.mark.parametrize("all_at_once", [True, False], ids=["at once", "by namespace"])
def test_what_was_applied_is_no_difference(*, all_at_once: bool) -> None:
    """The stack's own policies, with another's in another namespace, are as they should be."""
    assert found([*POLICIES, policy("x", "kube-system", egress=[{}])], all_at_once=all_at_once) == []


def test_a_missing_policy_is_named() -> None:
    """Each policy that is gone is told by namespace and name."""
    for gone in POLICIES:
        meta = gone["metadata"]
        assert found([one for one in POLICIES if one is not gone]) == [f"{meta['namespace']}/{meta['name']} is missing"]


def test_a_changed_policy_is_named() -> None:
    """An exception that somebody took out of a policy is seen."""
    changed = copy.deepcopy(POLICIES)
    (mine,) = [
        one for one in changed if (one["metadata"]["namespace"], one["metadata"]["name"]) == (HOME, "workloads-out")
    ]
    mine["spec"]["egress"][-1]["to"][0]["ipBlock"]["except"].pop()

    assert found(changed) == [f"{HOME}/workloads-out was changed"]


def test_a_later_policy_is_named_where_it_opens_something() -> None:
    """Policies add up: one that is not the stack's opens what it likes; one without rules opens nothing."""
    opening, closing = policy("zz-open", HOME, ingress=[{}]), policy("zz-closed", HOME, policyTypes=["Egress"])

    assert found([*POLICIES, opening, closing]) == [f"{HOME}/zz-open is not the stack's"]
