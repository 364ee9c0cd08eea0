"""The door of each tunnel server: HAProxy before frps, and the companion that says when logins may come."""

import json
from collections.abc import Mapping

from components import names, platform
from components.bundle import mount
from components.model import Manifest, requirements
from policy.baseline import container_security

ENTRANCE = "entrance"
CONFIG_DIR = "/config"
CONFIG_FILE = "haproxy.cfg"
SERVERS_FILE = "servers.json"

RESOURCES = requirements({"cpu": "50m", "memory": "64Mi"}, {"cpu": "2", "memory": "384Mi"})
"""Every byte of every session passes here; tests hold what thousands of connections take of it."""

COMPANION_RESOURCES = requirements({"cpu": "10m", "memory": "32Mi"}, {"cpu": "500m", "memory": "128Mi"})


def servers_json(addresses: Mapping[str, str]) -> str:
    """List every companion, for the others to ask; it is read anew each time, so that it may change."""
    listed = [{"name": name, "host": address, "port": names.STATE_PORT} for name, address in addresses.items()]
    return json.dumps(listed, indent=1) + "\n"


def entrance_container(image: str) -> Manifest:
    """Build the container of HAProxy: the pod's only one that is no sidecar, so that frps outlives its sessions."""
    health = {"httpGet": {"path": "/healthz", "port": "health"}}
    return {
        "name": ENTRANCE,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [f"{CONFIG_DIR}/{CONFIG_FILE}"],
        "ports": [
            {"name": "connect", "containerPort": names.CONNECT_PORT, "protocol": "TCP"},
            {"name": "health", "containerPort": names.HEALTH_PORT, "protocol": "TCP"},
        ],
        "readinessProbe": {**health, "periodSeconds": 2},
        "livenessProbe": {**health, **platform.LIVENESS},
        "resources": RESOURCES,
        "securityContext": container_security(),
        "volumeMounts": [mount("config", CONFIG_DIR, read_only=True)],
    }


def companion_container(image: str, name: str) -> Manifest:
    """Build the companion of the tunnel server *name*: a sidecar, whose readiness is that of the pod."""
    return {
        "name": "companion",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "command": ["python3", "-P", "-s", "-m", ENTRANCE],
        "args": [
            f"--name={name}",
            f"--servers={CONFIG_DIR}/{SERVERS_FILE}",
            f"--frps=127.0.0.1:{names.FRPS_API_PORT}",
            f"--listen=0.0.0.0:{names.STATE_PORT}",
        ],
        "ports": [{"name": "state", "containerPort": names.STATE_PORT, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "state"}, "periodSeconds": 1, "timeoutSeconds": 3},
        "resources": COMPANION_RESOURCES,
        "securityContext": container_security(),
        "volumeMounts": [mount("config", CONFIG_DIR, read_only=True)],
    }
