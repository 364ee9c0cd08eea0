"""Cluster objects of one unit, as small as they may be, for tests to change."""

import json
from typing import Any

from status.objects import Object, Seen

BEGUN, ENDED = "2026-01-01T00:00:00Z", "2026-01-01T00:00:03Z"

BESIDE = frozenset({"unit", "tunnel", "exit"})
"""Containers of a pod that run at the same time."""

RUNNING: Object = {"running": {"startedAt": BEGUN}}
DONE: Object = {"terminated": {"exitCode": 0, "reason": "Completed"}}


def deployment(**changes: Any) -> Object:
    """Give a Deployment that runs one pod; ``status``, ``replicas``, ``ssh``, ``claims`` and ``gpus`` may be said."""
    unit = {"name": "unit", "env": [{"name": "GPU_COUNT", "value": str(changes.get("gpus", 0))}]}
    beside = [{"name": "tunnel"}] if changes.get("ssh", True) else []
    template: Object = {
        "containers": [unit, *beside],
        "volumes": [{"persistentVolumeClaim": {"claimName": name}} for name in changes.get("claims", ())],
    }
    whole = {"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1}
    return {
        "metadata": {"name": "unit-u", "generation": 1, **changes.get("metadata", {})},
        "spec": {"replicas": changes.get("replicas", 1), "template": {"spec": template}},
        "status": changes.get("status", whole),
    }


def waiting(reason: str, message: str = "") -> Object:
    """Give the state of a container that waits."""
    return {"waiting": {"reason": reason, "message": message}}


def ended(code: int, reason: str = "Error", message: str = "", finished: str = ENDED) -> Object:
    """Give the state of a container that ended."""
    said = {"exitCode": code, "reason": reason, "message": message, "startedAt": BEGUN, "finishedAt": finished}
    return {"terminated": said}


def container(name: str, state: Object, last: Object | None = None, restarts: int = 0) -> Object:
    """Give what a pod says of a container."""
    return {"name": name, "state": state, "lastState": last or {}, "restartCount": restarts}


def pod(*containers: Object, name: str = "u-1", **changes: Any) -> Object:
    """Give a pod; those of *containers* that are not BESIDE one another start before them."""
    status: Object = {
        "phase": changes.get("phase", "Running"),
        "conditions": changes.get("conditions", []),
        "initContainerStatuses": [one for one in containers if one["name"] not in BESIDE],
        "containerStatuses": [one for one in containers if one["name"] in BESIDE],
        **changes.get("status", {}),
    }
    return {"metadata": {"name": name, "creationTimestamp": BEGUN, **changes.get("metadata", {})}, "status": status}


def unscheduled(message: str) -> list[Object]:
    """Give the condition of a pod that no node has."""
    return [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]


def claim(name: str, phase: str = "Bound") -> Object:
    """Give a volume claim."""
    return {"metadata": {"name": name}, "status": {"phase": phase}}


def job(name: str, *conditions: tuple[str, str], source: str = "") -> Object:
    """Give the job that fills the claim *name*, as a copy of *source* where that is said."""
    volumes: list[Object] = [{"persistentVolumeClaim": {"claimName": name}}]
    volumes += [{"persistentVolumeClaim": {"claimName": source, "readOnly": True}}] if source else []
    return {
        "metadata": {"name": f"prepare-{name}"},
        "spec": {"template": {"spec": {"volumes": volumes}}},
        "status": {"conditions": [{"type": kind, "status": "True", "message": said} for kind, said in conditions]},
    }


def event(reason: str, message: str, kind: str = "Normal", at: str = BEGUN) -> Object:
    """Give an event of the pod."""
    return {
        "involvedObject": {"name": "u-1"},
        "reason": reason,
        "message": message,
        "type": kind,
        "lastTimestamp": at,
    }


def link(
    server: str, state: str, reason: str = "", servers: tuple[str, ...] = ("frps-0", "frps-1"), **more: str
) -> str:
    """Give a line of the tunnel client's log."""
    said = {"event": "link", "server": server, "state": state, "reason": reason, "servers": servers}
    return json.dumps({**said, **more})


STARTING: Object = {"observedGeneration": 1, "updatedReplicas": 1, "unavailableReplicas": 1}
"""The status of a Deployment whose pod is not there yet."""


def starting(*containers: Object, **changes: Any) -> Seen:
    """Give a unit that is not available, with one pod."""
    more = {key: changes.pop(key) for key in ("events", "claims", "jobs", "log") if key in changes}
    made = deployment(status=STARTING, claims=changes.pop("mounts", ()), ssh=changes.pop("ssh", True))
    return Seen(made, (pod(*containers, **changes),), **more)
