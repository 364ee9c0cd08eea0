"""The bundle: our static programs, copied into a volume so that any user image can run them.

It brings what a user's image may lack: an init, a shell, sshd, and the scripts that use them (images/ssh-bundle).
"""

from components.model import Manifest, requirements
from policy.baseline import container_security

BUNDLE_DIR = "/.gpu-runtime"
COPY_DIR = "/.gpu-runtime-dst"
"""Where the bundle's own image finds the volume that it fills."""

_START = [f"{BUNDLE_DIR}/bin/tini", "--", f"{BUNDLE_DIR}/bin/sh"]

LAUNCH = [*_START, f"{BUNDLE_DIR}/libexec/launch"]
SERVE = [*_START, f"{BUNDLE_DIR}/libexec/keep-serving"]
LISTENING = [f"{BUNDLE_DIR}/bin/sh", f"{BUNDLE_DIR}/libexec/listening"]
PREPARE = [*_START, f"{BUNDLE_DIR}/libexec/prepare"]
RSYNC = f"{BUNDLE_DIR}/tools/rsync"
ACCOUNTS = [f"{BUNDLE_DIR}/bin/sh", f"{BUNDLE_DIR}/libexec/accounts"]

NO_GPU = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
"""User images often say "all" here, which a runtime that trusts the image turns into every GPU of the node."""

SETUP_RESOURCES = requirements({"cpu": "50m", "memory": "32Mi"}, {"cpu": "1", "memory": "128Mi"})
"""For steps before the main container: a second of copying, and less than any main container asks for."""

VOLUME: Manifest = {"name": "bundle", "emptyDir": {"sizeLimit": "64Mi"}}
"""Holds some 12 MiB of programs and the login's account files."""


def copy_container(image: str) -> Manifest:
    """Build the init container that fills `VOLUME`."""
    return {
        "name": "bundle",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": [NO_GPU],
        "resources": SETUP_RESOURCES,
        "securityContext": container_security(),
        "volumeMounts": [mount("bundle", COPY_DIR)],
    }


def mount(name: str, path: str, *, read_only: bool = False) -> Manifest:
    """Build a volume mount."""
    return {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
