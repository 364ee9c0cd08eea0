"""The pod template of a unit. It is sacred: replacing it ends a tenant's work, so nothing of the tiers is in it.

Addresses, tokens, certificates and keys reach the containers as mounted files; the golden test states what may be here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from components import names
from components.bundle import ACCOUNTS, BUNDLE_DIR, LAUNCH, NO_GPU, SETUP_RESOURCES, copy_container, mount
from components.bundle import VOLUME as BUNDLE_VOLUME
from components.exit_code import exit_container, exit_mount, exit_volume, hold_env
from components.model import Manifest, Resources, UnitRunAs, bytes_of, requirements
from policy.baseline import POD_DEFAULTS, container_security, pod_security, shm_mount, shm_volume

RUN_DIR = "/.gpu-runtime-run"
HOST_KEY_DIR = "/.gpu-runtime-host"
KEYS_DIR = "/.gpu-runtime-keys"
HOME_STAGE_DIR = "/.gpu-runtime-home"
TUNNEL_DIR = "/tunnel"
TUNNEL_STATE_DIR = "/run/tunnel"

ACCOUNT_FILES = {
    "/etc/passwd": "etc/passwd",
    "/etc/group": "etc/group",
    "/etc/profile.d/zz-gpu-runtime.sh": "etc/profile.sh",
}
"""Where the login's account goes in the unit's container, and where in the bundle it was prepared."""

TUNNEL_REQUESTS = {"cpu": "20m", "memory": "64Mi"}
TUNNEL_LIMITS = {"cpu": "1", "memory": "192Mi"}
"""The supervisor (24 MiB) and one frpc (22 MiB) per tunnel server; a full core while somebody copies a data set."""

RUN_SIZE = "16Mi"
"""sshd's configuration and its capped logs."""


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
    bundle_image: str
    tunnel_image: str
    command: tuple[str, ...]
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
    home: str
    """The home directory."""
    hold: int | None
    """Hold the container when the program has ended, but not with an error within so many seconds; None: never."""


def pod_template(pod: UnitPod) -> Manifest:
    """Build the template: prepare the bundle, announce the host, run the user's program."""
    ssh = [_tunnel_container(pod)] if pod.username else []
    held = [exit_container(pod.bundle_image)] if pod.hold is not None else []
    spec = {
        **POD_DEFAULTS,
        "serviceAccountName": names.TENANT_SERVICE_ACCOUNT,
        "hostname": pod.name,
        "terminationGracePeriodSeconds": pod.grace,
        "securityContext": pod_security(pod.run_as.uid, pod.run_as.gid),
        "initContainers": [copy_container(pod.bundle_image), _accounts_container(pod), *ssh, *held],
        "containers": [_unit_container(pod)],
        "volumes": list(_volumes(pod)),
    }
    return {"metadata": {"labels": dict(pod.labels)}, "spec": spec}


def _accounts_container(pod: UnitPod) -> Manifest:
    """Run the bundle's script in the user's image: only there can its accounts and home be seen."""
    return {
        "name": "accounts",
        "image": pod.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ACCOUNTS,
        "env": [*_platform_login(pod), NO_GPU],
        "resources": SETUP_RESOURCES,
        "securityContext": container_security(),
        "volumeMounts": [mount("bundle", BUNDLE_DIR), mount("home", HOME_STAGE_DIR)],
    }


def _tunnel_container(pod: UnitPod) -> Manifest:
    """Announce the unit's host. A sidecar by restart policy: up first, gone last, and without a probe that counts."""
    return {
        "name": "tunnel",
        "image": pod.tunnel_image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "args": [f"--dir={TUNNEL_DIR}", f"--state={TUNNEL_STATE_DIR}", f"--local-port={names.SSHD_PORT}"],
        "env": [NO_GPU],
        "resources": requirements(TUNNEL_REQUESTS, TUNNEL_LIMITS),
        "securityContext": container_security(),
        "volumeMounts": [
            mount("tunnel", TUNNEL_DIR, read_only=True),
            mount("tunnel-state", TUNNEL_STATE_DIR),
            mount("run", RUN_DIR, read_only=True),  # the audit log, which it passes on
        ],
    }


def _unit_container(pod: UnitPod) -> Manifest:
    extra = {"ephemeral-storage": pod.ephemeral} if pod.ephemeral else {}
    gpus = {resource: str(count) for resource, count in pod.gpus}
    said = [{"name": name, "value": value} for name, value in pod.env]
    hold = [hold_env(pod.hold)] if pod.hold is not None else []
    container: Manifest = {
        "name": "unit",
        "image": pod.image,
        "imagePullPolicy": "IfNotPresent",
        "command": LAUNCH,
        "env": [*_platform_login(pod), *hold, *_platform_env(pod), *said, *_secret_env(pod)],
        "resources": pod.resources.requirements(**extra, **gpus),
        "securityContext": container_security(read_only_root=False),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": list(_unit_mounts(pod)),
        **pod.probes,
    }
    if pod.claims:
        container["resources"]["claims"] = [{"name": name} for name in pod.claims]
    if pod.command:
        container["args"] = list(pod.command)
    if pod.ports:
        container["ports"] = [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in pod.ports]
    return container


def _platform_login(pod: UnitPod) -> list[Manifest]:
    login = {"GPU_RUNTIME_HOME": pod.home, "GPU_RUNTIME_SSH_USER": pod.username or ""}
    return [{"name": name, "value": value} for name, value in login.items()]


def _platform_env(pod: UnitPod) -> list[Manifest]:
    """Tell the program what it was given; a unit without a GPU sees none whatever its image says.

    So does one that claims its GPUs: they come by CDI, and its driver says void, too, so that no hook adds others.
    """
    said = {
        "HOME": pod.home,
        "SPEC_NAME": pod.labels[names.FLAVOR_LABEL],
        "UNIT_NAME": pod.name,
        "GPU_COUNT": str(pod.devices),
        "MEMORY_LIMIT": pod.resources.memory,
    }
    return [{"name": name, "value": value} for name, value in said.items()] + ([] if pod.gpus else [NO_GPU])


def _secret_env(pod: UnitPod) -> Iterable[Manifest]:
    for name, secret, key in pod.secret_env:
        yield {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _unit_mounts(pod: UnitPod) -> Iterable[Manifest]:
    yield mount("bundle", BUNDLE_DIR, read_only=True)
    yield mount("run", RUN_DIR)
    yield shm_mount()
    yield mount("tmp", "/tmp")  # noqa: S108 - a mount path inside the container
    yield mount("home", pod.home)
    for path, source in ACCOUNT_FILES.items():
        yield {**mount("bundle", path, read_only=True), "subPath": source}
    if pod.username:
        yield mount("host-key", HOST_KEY_DIR, read_only=True)
        yield mount("keys", KEYS_DIR, read_only=True)
    if pod.hold is not None:
        yield exit_mount()
    for at in pod.mounts:
        yield mount(at.claim, at.path, read_only=at.read_only)


def _volumes(pod: UnitPod) -> Iterable[Manifest]:
    limit = {"sizeLimit": pod.ephemeral} if pod.ephemeral else {}
    yield dict(BUNDLE_VOLUME)
    yield {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": RUN_SIZE}}
    yield shm_volume(bytes_of(pod.resources.memory))
    yield {"name": "tmp", "emptyDir": dict(limit)}
    yield _claim_volume("home", pod.home_claim) if pod.home_claim else {"name": "home", "emptyDir": dict(limit)}
    for claim in sorted({at.claim for at in pod.mounts}):
        yield _claim_volume(claim, claim)
    if pod.username:
        yield {"name": "host-key", "secret": {"secretName": names.unit_host_key(pod.name), "defaultMode": 0o440}}
        # Optional: where somebody deletes it, nobody is admitted; else its last content would stay in the folder.
        keys = {"name": names.unit_keys(pod.name), "defaultMode": 0o444, "optional": True}
        yield {"name": "keys", "configMap": keys}
        yield {"name": "tunnel", "secret": {"secretName": names.unit_tunnel(pod.name), "defaultMode": 0o440}}
        yield {"name": "tunnel-state", "emptyDir": {"medium": "Memory", "sizeLimit": RUN_SIZE}}
    if pod.hold is not None:
        yield exit_volume()


def _claim_volume(name: str, claim: str) -> Manifest:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}
