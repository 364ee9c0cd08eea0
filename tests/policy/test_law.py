"""Judging: any input, lists, order, and what a violation says."""

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policy.baseline import SHM_PATH
from policy.law import Violation, judge, judge_sources, set_violations, violations
from policy.objects import POD_PATHS
from policy.plain import UNKNOWN
from policy.vocabulary import generated, vocabulary
from tests.policy.cases import pod, walls

KEYS = sorted({*"abc", *(key for fields in vocabulary()[1].values() for key in fields), "items", "__target"})
KINDS = sorted({*(kind for _, kind in POD_PATHS), "List", "PodList", "Namespace", "Service", "NetworkPolicy", "Secret"})
leaves = st.sampled_from([None, True, False, 0, 1, -1, 0.5, "", "1", "1Gi", "Always", "ALL", SHM_PATH, UNKNOWN])
values = st.recursive(
    leaves | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)
POD_KEYS = sorted(
    {*pod()["spec"], *pod()["spec"]["containers"][0], "volumes", "initContainers", "volumeMounts", "name"}
)
parts = st.dictionaries(st.sampled_from(POD_KEYS), values, max_size=3)
pods = st.dictionaries(st.sampled_from(POD_KEYS), values | st.lists(parts, max_size=2), max_size=4)


@given(values)
def test_judge_never_raises(value: Any) -> None:
    """Whatever YAML can hold is judged, not met with a traceback."""
    assert isinstance(judge([value, value]), list)


@settings(max_examples=200)
@given(st.sampled_from(["v1", "apps/v1", "batch/v1", "networking.k8s.io/v1"]), st.sampled_from(KINDS), pods, values)
def test_judge_never_raises_on_broken_kubernetes(version: str, kind: str, spec: Any, metadata: Any) -> None:
    """Also not what almost looks like an object."""
    template = {"spec": {"template": {"spec": spec, "metadata": metadata}} | spec, "items": [spec], "template": spec}

    assert isinstance(judge([{"apiVersion": version, "kind": kind, "metadata": metadata} | template]), list)


@given(pods)
def test_only_a_pod_with_good_containers_passes(spec: Any) -> None:
    """Random specs do not stumble into the law."""
    assert judge([pod() | {"spec": spec}, walls()]) != []


def test_judging_changes_nothing() -> None:
    """The manifests that are judged are the manifests that are deployed."""
    manifests = [pod(hostNetwork=True), walls()]
    before = copy.deepcopy(manifests)

    judge(manifests)

    assert manifests == before


def test_a_violation_says_where() -> None:
    """Program and command print the same line."""
    (found,) = judge([walls(), pod(hostNetwork=True)])

    assert isinstance(found, Violation)
    assert found.text == (
        "Pod lab-a/sample: pod: spec.hostNetwork is true; remove it [host-namespaces, at spec.hostNetwork]"
    )


def test_alone_and_together() -> None:
    """One object is judged by what it says, all together by what they leave open."""
    bad = pod(hostNetwork=True)

    assert [found.check for found in violations(bad)] == ["host-namespaces"]
    assert [found.check for found in set_violations([bad])] == ["egress-walls", "ingress-walls"]
    assert len(judge([bad])) == 3


def test_lists_are_judged_item_by_item() -> None:
    """A List is no hiding place, neither nested nor typed, and its policies wall pods outside."""
    bare = {"metadata": {"name": "bare", "namespace": "lab-a"}, "spec": pod(hostPID=True)["spec"]}
    typed = {"apiVersion": "v1", "kind": "PodList", "items": [bare, pod()]}
    nested = {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": [walls()]}]}

    assert [(found.check, found.path) for found in judge([typed, nested])] == [
        ("host-namespaces", "items[0].spec.hostPID"),
    ]


def test_findings_follow_the_manifests() -> None:
    """Each violation knows its manifest, and they come in its order."""
    other = pod(hostIPC=True) | {"metadata": {"name": "other", "namespace": "lab-a"}}
    found = judge_sources([walls(), pod(hostPID=True), walls("lab-b"), other])

    assert [(source, violation.path) for source, violation in found] == [(1, "spec.hostPID"), (3, "spec.hostIPC")]


def test_secrets_stay_secret() -> None:
    """No violation holds what a Secret or an environment variable says, whatever is wrong around it."""
    value = "hunter2-hunter2"
    container = {"name": "main", "env": [{"name": "TOKEN", "value": value, "valeu": value}], "args": [value]}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "stringData": {"a": value},
        "data": value,
        "string_data": {"a": value},
    }
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "spec": {"template": {"env": value}, "containers": [container]},
    }

    found = judge([secret, cron, pod(containers=[container])])

    assert found
    assert value not in json.dumps(found)


def test_vocabulary_is_that_of_the_models() -> None:
    """`python -m policy.vocabulary` was run after the models were raised."""
    kinds, types = vocabulary()

    assert generated() == {"kinds": kinds, "types": types}
