"""The end of a program: the unit's container is held, and another of its pod shows the code in the Kubernetes API."""

from components.bundle import NO_GPU, mount
from components.model import Manifest, requirements
from policy.baseline import container_security

DIR = "/.gpu-runtime-exit"
"""Where the unit's container and this one meet; a named pipe in it carries the code."""

HOLD_ENV = "GPU_RUNTIME_HOLD"
"""Tells the bundle's launcher to hold the container, and for how many seconds an error is not held."""

COMMAND = ["/bundle/bin/tini", "--", "/bundle/bin/sh", "/bundle/libexec/report-exit"]

REQUESTS = {"cpu": "1m", "memory": "8Mi"}
LIMITS = {"cpu": "100m", "memory": "24Mi"}
"""It sleeps in one system call; the limit is what a container runtime needs to start anything."""

SIZE = "1Mi"
"""Of a volume that holds the named pipe alone."""


def hold_env(start_seconds: int) -> Manifest:
    """Build the variable that makes the unit's container outlive its program."""
    return {"name": HOLD_ENV, "value": str(start_seconds)}


def exit_container(bundle_image: str) -> Manifest:
    """Build the container that ends with the program's code, and then waits for the next."""
    return {
        "name": "exit",
        "image": bundle_image,
        "imagePullPolicy": "IfNotPresent",
        "command": COMMAND,
        "env": [NO_GPU],
        "resources": requirements(REQUESTS, LIMITS),
        "securityContext": container_security(),
        "volumeMounts": [exit_mount()],
    }


def exit_mount() -> Manifest:
    """Build the mount of the volume, for both containers."""
    return mount("exit", DIR)


def exit_volume() -> Manifest:
    """Build the volume."""
    return {"name": "exit", "emptyDir": {"medium": "Memory", "sizeLimit": SIZE}}
