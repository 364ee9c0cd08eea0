"""Who may read the platform's metrics."""

from typing import Any

import pytest

from components import names
from stacks.load import parse
from stacks.problems import RefusedError
from stacks.resolve import Stack
from tests.stack_files import FILES, raw

LOCAL = next(file for file in FILES if file.stem == "Pulumi.local")
READERS = {"namespace": "monitoring", "selector": {"app.kubernetes.io/name": "prometheus"}}
COMES_FROM = [
    {
        "namespaceSelector": names.namespace_selector("monitoring"),
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
    }
]


def opened(metrics: dict[str, Any] | None) -> dict[str, list[Any]]:
    """Give who comes in to gate and proxy, by the port, in the local stack whose platform says *metrics*."""
    said = raw(LOCAL)
    platform = {**said["platform"], **({"metrics": metrics} if metrics else {})}
    stack = Stack(parse({**said, "platform": platform}, {"gpu-runtime:secret"}), "local")
    policies = [one for one in stack.manifests() if one["kind"] == "NetworkPolicy"]
    ends = {"gate": "gate-in", "proxy": "proxy-in"}
    return {
        f"{end} {port['port']}": rule.get("from", ["anybody"])
        for end, name in ends.items()
        for policy in policies
        if policy["metadata"]["name"] == name
        for rule in policy["spec"]["ingress"]
        for port in rule["ports"]
    }


def test_who_is_named_reads_metrics_and_nothing_else() -> None:
    """The named pods of the named namespace come to the two ports of metrics; every other way in is as before."""
    before, after = opened(None), opened(READERS)
    new = {f"gate {names.GATE_METRICS_PORT}": COMES_FROM, f"proxy {names.PROXY_HEALTH_PORT}": COMES_FROM}

    assert not new.keys() & before.keys()
    assert after == {**before, **new}


@pytest.mark.parametrize("metrics", [{"namespace": "monitoring", "selector": {}}, {**READERS, "namespace": "*"}])
def test_everybody_is_nobody_in_particular(metrics: dict[str, Any]) -> None:
    """A selector of every pod, or of every namespace, is refused."""
    with pytest.raises(RefusedError, match=r"platform\.metrics"):
        opened(metrics)
