"""What the parts of a unit's pod share: its description, and the paths at which its containers meet."""

from dataclasses import dataclass
from typing import Literal

from components import names
from components.bundle import Bundle
from components.model import Manifest, Resources, UnitRunAs

Mode = Literal["workload", "image", "sidecar"]
"""Where a login lands: in the unit's own container by our sshd, there by the image's own, or in a container beside."""

RUN_DIR = "/.gpu-runtime-run"
HOST_KEY_DIR = "/.gpu-runtime-host"
KEYS_DIR = "/.gpu-runtime-keys"
HOME_STAGE_DIR = "/.gpu-runtime-home"


@dataclass(frozen=True)
class VolumeMount:
    """A claim of the same namespace at a path."""

    claim: str
    path: str
    read_only: bool


@dataclass(frozen=True)
class UnitPod:
    """All that shapes the pod of a unit."""

    name: str
    labels: names.Labels
    image: str
    bundle: Bundle
    tunnel_image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    secret_env: tuple[tuple[str, str, str], ...]
    """Variable, Secret and key of it."""
    ports: tuple[tuple[str, int], ...]
    mounts: tuple[VolumeMount, ...]
    home_claim: str | None
    run_as: UnitRunAs
    resources: Resources
    gpus: tuple[tuple[str, int], ...]
    """GPU resource name and amount; empty for a unit without one, and for one that claims its GPUs."""
    devices: int
    """How many GPUs that is."""
    claims: tuple[str, ...]
    """Names of the pod's resource claims."""
    probes: Manifest
    """The container's probes in Kubernetes' words."""
    grace: int
    """Seconds between SIGTERM and SIGKILL."""
    ephemeral: str | None
    username: str | None
    """Login name; None for a unit without SSH."""
    mode: Mode
    """Where a login lands; a unit without SSH starts its program as `workload` does."""
    home: str
    """The home directory."""
    hold: int | None
    """Hold the container when the program has ended, but not with an error within so many seconds; None: never."""


def login_env(pod: UnitPod) -> list[Manifest]:
    """Tell a container who logs in, and where that one's home is."""
    login = {"GPU_RUNTIME_HOME": pod.home, "GPU_RUNTIME_SSH_USER": pod.username or ""}
    return [{"name": name, "value": value} for name, value in login.items()]
