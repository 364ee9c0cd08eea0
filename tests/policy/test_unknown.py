"""What nobody knows before the deployment counts as a violation."""

import asyncio
import copy
import re
from typing import Any

import pulumi
import pytest

from policy.check import is_object_check
from policy.checks import ALL
from policy.law import judge, violations
from policy.plain import UNKNOWN, plain
from tests.policy.cases import Case, cases, name, pod, walls

NOT_OF_PODS = {"foreign-policies", "namespace-labels", "opaque-kinds", "unknown-fields"}
"""Object checks that do not read pods: their fixtures cover them."""


@pytest.mark.parametrize("case", cases("fail"), ids=name)
def test_unknown_is_no_excuse(case: Case) -> None:
    """Where a check refuses a value, it refuses the unknown too."""
    documents = copy.deepcopy(case.documents)
    (violation,) = judge(documents)
    _replace(documents, violation.name, _keys(violation.path))

    assert case.check.ID in {found.check for found in judge(documents)}


@pytest.mark.parametrize("case", cases("fail"), ids=name)
def test_unknown_surroundings_are_no_excuse(case: Case) -> None:
    """Hiding the whole part that holds the bad value hides nothing from the law."""
    (violation,) = judge(case.documents)
    keys = _keys(violation.path)
    for length in range(1, len(keys)):
        documents = copy.deepcopy(case.documents)
        _replace(documents, violation.name, keys[:length])

        assert judge(documents) != [], keys[:length]


@pytest.mark.parametrize("kind", [("apps/v1", "Deployment"), ("batch/v1", "Job")], ids=lambda kind: kind[1])
def test_unknown_spec_breaks_every_check_of_pods(kind: tuple[str, str]) -> None:
    """No check takes an unknown pod for a good one."""
    manifest = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "sample"}, "spec": UNKNOWN}

    found = {violation.check for violation in violations(manifest)}

    assert found >= {check.ID for check in ALL if is_object_check(check)} - NOT_OF_PODS


def test_output_is_unknown() -> None:
    """A Pulumi input that is no plain value is one that preview cannot decide."""

    async def judged() -> object:
        """Make the input where Pulumi makes its own: in a running loop."""
        return plain({"a": [pulumi.Output.from_input("x"), 1.0, 0.5, ("t",)]})

    assert asyncio.run(judged()) == {"a": [UNKNOWN, 1, 0.5, ["t"]]}


def test_unknown_leaf_that_matters_to_nobody_passes() -> None:
    """A Secret's value, an image and an environment variable may be known late."""
    container = pod()["spec"]["containers"][0] | {"image": UNKNOWN, "env": [{"name": "A", "value": UNKNOWN}]}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": UNKNOWN}}

    assert judge([pod(containers=[container]), walls(), secret]) == []


def test_unknown_namespace_is_walled_by_nobody() -> None:
    """A pod that may land anywhere has no walls."""
    manifest = pod()
    manifest["metadata"]["namespace"] = UNKNOWN

    assert {violation.check for violation in judge([manifest, walls()])} == {"egress-walls", "ingress-walls"}


def _keys(path: str) -> list[str | int]:
    found = re.findall(r'\["([^"]+)"\]|\[(\d+)\]|([^.\[\]]+)', path)
    return [quoted or (int(index) if index else plain_key) for quoted, index, plain_key in found]


def _replace(documents: list[Any], owner: str, keys: list[str | int]) -> None:
    items = [item for document in documents for item in document.get("items", [document])]
    target = next(item for item in reversed(items) if item["metadata"]["name"] == owner)
    for key in keys[:-1]:
        target = target.setdefault(key, {}) if isinstance(target, dict) else target[int(key)]
    target[keys[-1]] = UNKNOWN
