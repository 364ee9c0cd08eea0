"""The bundle: our static programs in a volume of a pod, so that any user image can run them.

It brings what a user's image may lack: an init, a shell, sshd, and the scripts that use them (images/ssh-bundle).
"""

from dataclasses import dataclass

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

IN_IMAGE = "bundle"
"""The folder of the image that is the bundle."""

SIZE = "64Mi"
"""Of a volume with some 12 MiB of programs."""


@dataclass(frozen=True)
class Bundle:
    """How a pod comes by the bundle."""

    image: str
    as_volume: bool
    """True: the image itself is the volume, which not every cluster can; else its content is copied into one."""

    @property
    def copied(self) -> "Bundle":
        """Give the one for a pod in a user namespace: containerd 2.2.1 mounts no image there (issue 12812)."""
        return Bundle(self.image, as_volume=False)

    @property
    def volume(self) -> Manifest:
        """Build the volume."""
        if self.as_volume:
            return {"name": "bundle", "image": {"reference": self.image, "pullPolicy": "IfNotPresent"}}
        return {"name": "bundle", "emptyDir": {"sizeLimit": SIZE}}

    @property
    def begin(self) -> list[Manifest]:
        """Build the init containers that fill the volume: one, or none where it is full from the start."""
        return [] if self.as_volume else [_copy_container(self.image)]

    @property
    def mount(self) -> Manifest:
        """Build its mount."""
        part = {"subPath": IN_IMAGE} if self.as_volume else {}
        return {**mount("bundle", BUNDLE_DIR, read_only=True), **part}


def _copy_container(image: str) -> Manifest:
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
