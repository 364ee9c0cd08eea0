"""When a tunnel server has rolled, and what comes of it when it does not."""

import asyncio
from typing import Any

import httpx2
import pulumi
import pytest

from components import rolled
from components.rolled import Patience, lacks
from tests.components.test_cluster import client

WHOLE = {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}

CHANGED = pulumi.ResourceHookArgs(
    "urn", "id", "tunnel-frps-0", "type", {"metadata": {"name": "frps-0", "namespace": "gpu-runtime"}}
)


def deployment(**status: Any) -> dict[str, Any]:
    """Give a Deployment that was changed once."""
    meta = {"name": "frps-0", "namespace": "gpu-runtime", "generation": 2}
    spec = {"replicas": 1, "selector": {}, "template": {}}
    return {"metadata": meta, "spec": spec, "status": {**WHOLE, **status}}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, None),
        ({"observedGeneration": 1}, "the cluster has not looked at it yet"),
        ({"replicas": 0, "updatedReplicas": 0, "availableReplicas": 0}, "replicas is 0 and not 1"),
        ({"updatedReplicas": 0}, "updatedReplicas is 0 and not 1"),
        ({"availableReplicas": 0}, "availableReplicas is 0 and not 1"),
    ],
)
def test_what_a_server_lacks(status: dict[str, Any], said: str | None) -> None:
    """A server has rolled when the pod of its new template is available, and at no moment before."""
    assert lacks(deployment(**status)) == said


def patience(monkeypatch: pytest.MonkeyPatch, *answers: Any, seconds: float = 60) -> tuple[Patience, list[Any]]:
    """Give one that is answered in turn, with the answers that are left."""
    left = list(answers)

    def answer(_: httpx2.Request) -> httpx2.Response:
        said = left.pop(0) if len(left) > 1 else left[0]
        if said is None:
            raise httpx2.ConnectTimeout("no answer")
        return httpx2.Response(200, json=said)

    monkeypatch.setattr(rolled, "LOOK_SECONDS", 0.0)
    return Patience(lambda: client(answer), seconds), left


def test_the_next_server_waits_for_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the old state, none at all or a half one is seen, and while nobody answers, it waits."""
    old, gone = deployment(observedGeneration=1), deployment(replicas=0, updatedReplicas=0, availableReplicas=0)
    waiting, left = patience(monkeypatch, old, gone, None, deployment(availableReplicas=0), deployment())

    asyncio.run(waiting.wait(CHANGED))
    assert left == [deployment()]


def test_a_server_that_never_comes_fails_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after is not touched, and the reason is told."""
    waiting, _ = patience(monkeypatch, deployment(availableReplicas=0), seconds=0)

    with pytest.raises(RuntimeError, match="frps-0 has not rolled after 0 s: availableReplicas is 0 and not 1"):
        asyncio.run(waiting.wait(CHANGED))
