"""When a rig counts as ready."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools.rig import health
from tools.rig.state import Folder

SINCE = "2030-01-01T10:00:00Z"
EARLIER, LATER = "2030-01-01T09:59:59Z", "2030-01-01T10:00:01Z"


def node(status: str, heartbeat: str, gpus: str) -> dict[str, Any]:
    """Return a Node as the API says it."""
    condition = {"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}
    return {"status": {"conditions": [condition], "allocatable": {"nvidia.com/gpu": gpus}}}


def pods(status: str, began: str) -> dict[str, Any]:
    """Return a list of one pod."""
    state = {"running": {"startedAt": began}}
    return {
        "items": [
            {"status": {"conditions": [{"type": "Ready", "status": status}], "containerStatuses": [{"state": state}]}}
        ]
    }


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        (node("True", LATER, "8"), []),
        (node("True", SINCE, "8"), []),
        (node("True", EARLIER, "8"), ["node"]),
        (node("False", LATER, "8"), ["node"]),
        (node("True", LATER, "0"), ["simulated GPUs"]),
        ({}, ["node", "simulated GPUs"]),
    ],
)
def test_a_node_must_have_said_so_in_this_run(found: dict[str, Any], missing: list[str]) -> None:
    """On kept data the API server still shows what the node said before it ended."""
    assert health.node_missing(found, SINCE) == missing


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        (pods("True", LATER), []),
        (pods("True", EARLIER), ["cluster DNS"]),
        (pods("False", LATER), ["cluster DNS"]),
        ({"items": []}, ["cluster DNS"]),
    ],
)
def test_dns_must_run_in_this_run(found: dict[str, Any], missing: list[str]) -> None:
    """A pod that was ready before the rig ended answers nobody."""
    assert health.dns_missing(found, SINCE) == missing


def test_programs_that_wait_are_missing(tmp_path: Path) -> None:
    """A rig whose supervisor has said nothing yet, or still waits, is not ready."""
    folder = Folder(tmp_path)
    folder.make()
    assert health.waiting(folder) == ["programs"]

    (folder.inside / "progress.json").write_text(
        json.dumps({"waiting": ["kube-router"], "running": ["etcd", "kubelet"]})
    )
    assert health.waiting(folder) == ["kube-router"]
    assert health.running(folder) == ["kubelet", "etcd"]
