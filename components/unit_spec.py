"""What a stack file says of a unit and of its size."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool

from components.model import (
    EnvName,
    Host,
    Image,
    Model,
    MountPath,
    Name,
    Port,
    PortName,
    PublicKey,
    Quantity,
    Resources,
    RunAs,
    UserName,
)

DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"

PLATFORM_ENV = frozenset({"SPEC_NAME", "UNIT_NAME", "GPU_COUNT", "MEMORY_LIMIT", "HOME"})
"""Set by the platform in every unit; a user who sets them is refused."""

GPU_ENV_PREFIXES = (
    "NVIDIA_VISIBLE_",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_REQUIRE_",
    "NVIDIA_DISABLE_",
    "GPU_RUNTIME_",
)
"""Variables by which a container asks the runtime for GPUs that were not granted, and our own."""

SYSTEM_TREES = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/run")
"""Nothing may be mounted at or below these: it would hide what the image or the platform has there."""

SYSTEM_FOLDERS = ("/home", "/root", "/tmp", "/var")  # noqa: S108 - paths inside the container
"""Nothing may be mounted at these; below them it may."""


class Flavor(Model):
    """A named size."""

    gpus: Annotated[int, Field(ge=0, le=64)] = 1
    cpu: Quantity
    memory: Quantity
    ephemeral: Quantity | None = None
    resource: str = DEFAULT_GPU_RESOURCE
    node_selector: dict[str, str] = Field(default={})

    @property
    def resources(self) -> Resources:
        """Give CPU and memory of the unit's container."""
        return Resources(cpu=self.cpu, memory=self.memory)


class PortSpec(Model):
    """A port that the program serves; nobody reaches it unless *expose* says so."""

    name: PortName
    port: Port
    expose: Literal["none", "tenant"] = "none"


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
    authorized_keys: Annotated[tuple[PublicKey, ...], Field(min_length=1)]
    mode: Literal["workload"] = "workload"


class UnitSpec(Model):
    """What a stack file says of a unit."""

    flavor: Name
    image: Image
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[EnvName, str] = Field(default={})
    ports: tuple[PortSpec, ...] = ()
    mounts: tuple[MountSpec, ...] = ()
    home: HomeSpec | None = None
    run_as: RunAs = RunAs()
    ssh: SshSpec | None = None
    host: Name | None = None
    domain_suffix: Host | None = None
    disruption: Literal["block", "allow"] = "block"
    running: StrictBool = True
    timeout: Annotated[str, Field(pattern=r"^[1-9][0-9]*[smh]$")] = "10m"

    @property
    def home_dir(self) -> str:
        """Give the home directory, which is a volume in any image."""
        return f"/home/{self.ssh.username if self.ssh else 'user'}"

    @property
    def storages(self) -> tuple[str, ...]:
        """Name the storages that the unit mounts, home included, in the order said."""
        home = (self.home.storage,) if self.home else ()
        return (*(mount.storage for mount in self.mounts), *home)
