"""When a rig counts as ready."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools.rig import health, outside
from tools.rig.outside import commands
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


class Recorder:
    """A rig that only remembers what it was asked to run, and fails where told."""

    def __init__(self, fails: str = "") -> None:
        self.ran: list[str] = []
        self.fails = fails

    def exec(self, *argv: str, check: bool = True) -> None:
        """Remember a command."""
        self.ran.append(" ".join(argv))
        if check and self.fails and self.fails in self.ran[-1]:
            raise RuntimeError(self.fails)


def test_hosts_outside_go_away_again() -> None:
    """Test hosts are removed after the test, and also when they could not be made whole."""
    rig = Recorder()
    with outside(rig, "203.0.113.7"):
        assert "ip route add 203.0.113.7/32 via 169.254.254.2" in rig.ran
    assert "ip netns delete outside" in rig.ran[-1]

    broken = Recorder(fails="route add 203")
    with pytest.raises(RuntimeError), outside(broken, "203.0.113.7"):
        pass
    assert "ip netns delete outside" in broken.ran[-1]


def test_a_host_outside_has_no_default_route_of_the_rig() -> None:
    """Only the named addresses become reachable."""
    assert not [command for command in commands([]) if command[:4] == ["ip", "route", "add", "default"]]
