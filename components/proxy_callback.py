"""The container beside each Envoy that seals an issuer's codes, each for one origin (services/proxy/callback.py)."""

from components import names, platform
from components.bundle import mount
from components.model import Manifest, requirements
from policy.baseline import container_security

CALLBACK = "callback"
"""Name of the container, of its folder and of Envoy's cluster."""

FOLDER = f"/run/{CALLBACK}"
SOCKET = f"{FOLDER}/{CALLBACK}.sock"

KEY = "callback"
"""File of the Secret that it alone reads."""

KEY_VOLUME, KEY_DIR = "callback-key", "/callback-key"

RESOURCES = requirements({"cpu": "10m", "memory": "32Mi"}, {"cpu": "500m", "memory": "64Mi"})


def callback_container(image: str) -> Manifest:
    """Build the sidecar from the *image* of the proxy."""
    return {
        "name": CALLBACK,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "command": ["python3", "-P", "-s", "-m", f"{names.PROXY}.callback"],
        "args": [f"--socket={SOCKET}", f"--key-file={KEY_DIR}/{KEY}"],
        "resources": RESOURCES,
        "securityContext": container_security(),
        "volumeMounts": [mount(KEY_VOLUME, KEY_DIR, read_only=True), socket_mount()],
    }


def callback_volumes(secret: str) -> list[Manifest]:
    """Give its volumes: its own key of *secret*, and the folder of its socket, which Envoy mounts, too."""
    key = platform.secret_volume(KEY_VOLUME, secret)
    key["secret"] |= {"items": [{"key": KEY, "path": KEY}]}
    return [key, {"name": CALLBACK, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]


def socket_mount() -> Manifest:
    """Mount the folder of its socket."""
    return mount(CALLBACK, FOLDER)
