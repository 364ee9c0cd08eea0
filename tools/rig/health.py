"""What a rig's cluster still lacks, asked at its API server."""

import json
from pathlib import Path
from typing import Any

import requests

from tools.rig.components import GPUS, KUBERNETES
from tools.rig.config import API_PORT
from tools.rig.network import Network
from tools.rig.pki import node_name
from tools.rig.state import Folder

TIMEOUT_SECONDS = (0.5, 3.0)
"""To connect and to answer: a healthy API server on a link of this host takes milliseconds for each."""

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class Api:
    """The rig's API server, read as its administrator."""

    def __init__(self, folder: Folder, network: Network) -> None:
        keys = folder.inside / "pki"
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy of the host knows no way to the rig
        self._session.cert = (str(keys / "admin.crt"), str(keys / "admin.key"))
        self._session.verify = str(keys / "ca.crt")
        self._server = f"https://{network.node_ip}:{API_PORT}"

    def get(self, path: str) -> Any:
        """Return the object at *path*, or None when it is not there or the server does not answer."""
        try:
            answer = self._session.get(f"{self._server}{path}", timeout=TIMEOUT_SECONDS)
        except (requests.RequestException, OSError):
            return None
        return (
            (answer.json() if "json" in answer.headers.get("Content-Type", "") else answer.text) if answer.ok else None
        )


def missing(api: Api, rig: str, folder: Folder) -> list[str]:
    """Return in words what keeps the rig from being ready; an empty list means that it is."""
    if api.get("/readyz") is None:
        return ["API server"]
    began = read_json(folder.inside / "progress.json") or {}
    since = str(began.get("began", ""))
    found = [
        *node_missing(api.get(f"/api/v1/nodes/{node_name(rig)}") or {}, since),
        *dns_missing(api.get("/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dkube-dns") or {}, since),
        *class_missing(api.get("/apis/storage.k8s.io/v1/storageclasses") or {}),
    ]
    return found + [name for name in waiting(folder) if name not in found]


def identity(api: Api) -> str | None:
    """Return what tells this cluster from any other: the uid of its namespace kube-system."""
    namespace = api.get("/api/v1/namespaces/kube-system")
    return str(namespace["metadata"]["uid"]) if namespace else None


def node_missing(node: dict[str, Any], since: str) -> list[str]:
    """Judge a Node. What was said before *since* (RFC 3339, UTC) is of an earlier run on the same data."""
    status = node.get("status", {})
    ready = any(
        one["type"] == "Ready" and one["status"] == "True" and one["lastHeartbeatTime"] >= since
        for one in status.get("conditions", ())
    )
    gpus = status.get("allocatable", {}).get("nvidia.com/gpu") == str(GPUS)
    return [word for word, there in (("node", ready), ("simulated GPUs", gpus)) if not there]


def dns_missing(pods: dict[str, Any], since: str) -> list[str]:
    """Judge the list of DNS pods: one must be ready, in a container that began in this run."""
    return [] if any(_serves(pod.get("status", {}), since) for pod in pods.get("items", ())) else ["cluster DNS"]


def _serves(status: dict[str, Any], since: str) -> bool:
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))
    begins = [
        one.get("state", {}).get("running", {}).get("startedAt", "") for one in status.get("containerStatuses", ())
    ]
    return ready and all(begin >= since for begin in begins)


def class_missing(classes: dict[str, Any]) -> list[str]:
    """Judge the list of storage classes."""
    for item in classes.get("items", ()):
        if item["metadata"].get("annotations", {}).get(DEFAULT_CLASS) == "true":
            return []
    return ["default storage class"]


def waiting(folder: Folder) -> list[str]:
    """Return the programs that the rig's supervisor has not started yet."""
    progress = read_json(folder.inside / "progress.json")
    return list(progress.get("waiting", ())) if progress else ["programs"]


def running(folder: Folder) -> list[str]:
    """Return the programs that the rig's supervisor has started, Kubernetes' own first."""
    progress = read_json(folder.inside / "progress.json") or {}
    return sorted(progress.get("running", ()), key=lambda name: (name not in KUBERNETES, name))


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a file that may not exist."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return found
