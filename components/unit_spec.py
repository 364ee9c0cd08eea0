"""What a stack file says of a unit."""

import json
import re
from typing import Annotated, Literal

from pydantic import Field, StrictBool

from components import names
from components.dns import LabelKey, LabelValue
from components.flavor import PriorityClass
from components.health import ProbesSpec
from components.model import (
    EnvName,
    Host,
    Image,
    Model,
    MountPath,
    Name,
    Port,
    PortName,
    SecretName,
    UnitRunAs,
    UserName,
    Whole,
    matching,
)
from components.unit_parts import Mode
from components.user_ca import AuthorizedKeys, UserCaSpec

PLATFORM_ENV = frozenset({"SPEC_NAME", "UNIT_NAME", "GPU_COUNT", "MEMORY_LIMIT", "HOME"})
"""Set by the platform in every unit; a user who sets them is refused."""

GPU_ENV_PREFIXES = (
    "NVIDIA_VISIBLE_",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_REQUIRE_",
    "NVIDIA_DISABLE_",
    "GPU_RUNTIME_",
    "CUDA_DEVICE_MEMORY_LIMIT",
    "CUDA_DEVICE_SM_LIMIT",
    "CUDA_DISABLE_CONTROL",
)
"""Variables by which a container asks the runtime for GPUs that were not granted, or HAMi for more of one; our own."""

Duration = Annotated[str, matching(re.compile(r"[1-9][0-9]{0,5}[smh]"), "must be a duration such as 90s, 10m or 1h")]

LONGEST_GRACE = 3600
"""Seconds: drains and upgrades of managed clusters wait for no pod longer than an hour."""

LONGEST_START = 3600
"""Seconds: whoever waits for a program to fail at its start waits no longer than an hour."""

SYSTEM_TREES = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/run")
"""Nothing may be mounted at or below these: it would hide what the image or the platform has there."""

SYSTEM_FOLDERS = ("/home", "/root", "/tmp", "/var")  # noqa: S108 - paths inside the container
"""Nothing may be mounted at these; below them it may."""


class PortSpec(Model):
    """A port that the program serves; nobody reaches it unless *expose* says so."""

    name: PortName
    port: Port
    expose: Literal["none", "tenant", "web"] = "none"
    """none; tenant: units of the same tenant; web: its people, signed in, through the platform's proxy."""


class MountSpec(Model):
    """A storage of the same tenant at a path."""

    storage: Name
    path: MountPath
    read_only: StrictBool = False


class HomeSpec(Model):
    """The storage that keeps the home directory."""

    storage: Name


class SshSpec(Model):
    """Who may log in, and where they land."""

    username: UserName = "user"
    authorized_keys: AuthorizedKeys = ()
    user_ca: UserCaSpec | None = None
    """In place of the tenant's and the stack's."""
    mode: Mode = "workload"


class SecretKeySpec(Model):
    """One value of a Secret that somebody put into the tenant's namespace."""

    secret: SecretName
    key: Annotated[
        str, Field(max_length=253), matching(re.compile(r"[A-Za-z0-9._-]+"), "must be a key of a Secret such as token")
    ]


class UnitSpec(Model):
    """What a stack file says of a unit."""

    flavor: Name
    image: Image
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[EnvName, str] = Field(default={})
    secret_env: dict[EnvName, SecretKeySpec] = Field(default={})
    """Variables whose values are in Secrets, which the stack file never sees."""
    ports: tuple[PortSpec, ...] = ()
    mounts: tuple[MountSpec, ...] = ()
    home: HomeSpec | None = None
    run_as: UnitRunAs = UnitRunAs()
    ssh: SshSpec | None = None
    host: Name | None = None
    domain_suffix: Host | None = None
    probes: ProbesSpec = ProbesSpec()
    grace: Duration = "30s"
    """Between SIGTERM and SIGKILL."""
    node_selector: dict[LabelKey, LabelValue] = Field(default={})
    """Beside the flavor's."""
    priority_class: PriorityClass | None = None
    """In place of the flavor's."""
    user_namespace: StrictBool = False
    """True: the uids of the pod are none of the node's, where the cluster can. Then root inside is allowed."""
    after_exit: Literal["hold", "restart"] | None = None
    """When the program has ended: keep its container, or start it again. None: hold with SSH, restart without."""
    start_seconds: Annotated[Whole, Field(ge=0, le=LONGEST_START)] = 10
    """An error so soon after the start is never held."""
    disruption: Literal["block", "allow"] = "block"
    running: StrictBool = True
    timeout: Duration = "10m"

    @property
    def home_dir(self) -> str:
        """Give the home directory, which is a volume in any image."""
        return f"/home/{self.ssh.username if self.ssh else 'user'}"

    @property
    def mode(self) -> Mode:
        """Give the landing mode; without SSH the program starts as in `workload`."""
        return self.ssh.mode if self.ssh else "workload"

    @property
    def hold(self) -> int | None:
        """Give the `start_seconds` of a unit that is held at its program's end; None where it is not, or has none.

        Only our launcher can hold, so that other modes restart.
        """
        after = self.after_exit or ("hold" if self.ssh else "restart")
        held = after == "hold" and self.command and self.mode == "workload"
        return self.start_seconds if held else None

    @property
    def must_run(self) -> int:
        """Give the seconds that its program runs before it is well; 0 for our idle one, which cannot fail."""
        return self.start_seconds if self.command or self.mode != "workload" else 0

    @property
    def web(self) -> tuple[PortSpec, ...]:
        """Give the ports that the proxy leads to."""
        return tuple(port for port in self.ports if port.expose == "web")

    @property
    def told(self) -> dict[str, str]:
        """Give what its Service tells the proxy: ports that it leads to, and where a login finds each storage."""
        web = {names.WEB_ANNOTATION: ",".join(port.name for port in self.web)} if self.web else {}
        paths = {names.MOUNTS_ANNOTATION: json.dumps(self.paths, sort_keys=True)} if self.ssh and self.paths else {}
        return web | paths

    @property
    def paths(self) -> dict[str, str]:
        """Give the storages by name with the path at which a login finds each, the first where there are several."""
        home = {self.home.storage: self.home_dir} if self.home else {}
        return {**home, **{mount.storage: mount.path for mount in reversed(self.mounts)}}

    @property
    def storages(self) -> tuple[str, ...]:
        """Name the storages that the unit mounts, home included, in the order said."""
        home = (self.home.storage,) if self.home else ()
        return (*(mount.storage for mount in self.mounts), *home)


def seconds(duration: str) -> int:
    """Read ``90s``, ``10m`` or ``1h``."""
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]
