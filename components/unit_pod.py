"""The pod template of a unit. It is sacred: replacing it ends a tenant's work, so nothing of the tiers is in it.

Addresses, tokens, certificates and keys reach the containers as mounted files; the golden test states what may be here.
"""

from collections.abc import Iterable

from components import landing, names
from components.bundle import ACCOUNTS, NO_GPU, SETUP_RESOURCES, mount
from components.exit_code import exit_container, exit_mount, exit_volume, hold_env
from components.model import Manifest, bytes_of, requirements
from components.unit_parts import HOME_STAGE_DIR, RUN_DIR, UnitPod, login_env
from policy.baseline import POD_DEFAULTS, container_security, pod_security, shm_mount, shm_volume

TUNNEL_DIR = "/tunnel"
TUNNEL_STATE_DIR = "/run/tunnel"

ACCOUNTS_DIR = "/.gpu-runtime-etc"
"""Where the login's account files are written, before any container mounts one of them."""

ACCOUNTS_SIZE = "4Mi"
"""Of account files: an image may list thousands of users."""

RUN_SIZE = "16Mi"
"""sshd's configuration and its capped logs."""


def pod_template(pod: UnitPod) -> Manifest:
    """Build the template: prepare the bundle, run the user's program, announce the host."""
    before = [*pod.bundle.begin, _accounts_container(pod), *landing.sidecars(pod)]
    tunnel = [_tunnel_container(pod)] if pod.username else []
    held = [exit_container(pod.bundle.image)] if pod.hold is not None else []
    spec = {
        **POD_DEFAULTS,
        "serviceAccountName": names.TENANT_SERVICE_ACCOUNT,
        "hostname": pod.name,
        "terminationGracePeriodSeconds": pod.grace,
        "securityContext": pod_security(pod.run_as.uid, pod.run_as.gid),
        "initContainers": before,
        "containers": [_unit_container(pod), *tunnel, *held],
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
        "env": [*login_env(pod), NO_GPU],
        "resources": SETUP_RESOURCES,
        "securityContext": container_security(),
        "volumeMounts": [pod.bundle.mount, mount("accounts", ACCOUNTS_DIR), mount("home", HOME_STAGE_DIR)],
    }


def _tunnel_container(pod: UnitPod) -> Manifest:
    """Announce the unit's host, beside the program and without a probe that counts.

    No native sidecar: the kubelet takes a second for each container that must have started before the next, and the
    client has nothing to do before sshd is up. When the pod ends it stays until sshd has ended, so that sessions see
    the program's end; an sshd that is a native sidecar itself waits for it, and gets no such stay.
    """
    stay = [] if pod.mode == "sidecar" else ["--until-sshd-ends"]
    return {
        "name": "tunnel",
        "image": pod.tunnel_image,
        "imagePullPolicy": "IfNotPresent",
        "args": [f"--dir={TUNNEL_DIR}", f"--state={TUNNEL_STATE_DIR}", f"--local-port={names.SSHD_PORT}", *stay],
        "env": [NO_GPU],
        "resources": requirements(landing.TUNNEL_REQUESTS, landing.TUNNEL_LIMITS),
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
        **landing.program(pod),
        "env": [*landing.container_env(pod), *hold, *_platform_env(pod), *said, *_secret_env(pod)],
        "resources": pod.resources.requirements(**extra, **gpus),
        "securityContext": container_security(read_only_root=False),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": list(_unit_mounts(pod)),
        **pod.probes,
    }
    if pod.claims:
        container["resources"]["claims"] = [{"name": name} for name in pod.claims]
    if pod.ports:
        container["ports"] = [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in pod.ports]
    return container


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
    yield from landing.tools(pod)
    yield shm_mount()
    yield mount("tmp", "/tmp")  # noqa: S108 - a mount path inside the container
    yield mount("home", pod.home)
    yield from landing.login(pod)
    if pod.hold is not None:
        yield exit_mount()
    for at in pod.mounts:
        yield mount(at.claim, at.path, read_only=at.read_only)


def _volumes(pod: UnitPod) -> Iterable[Manifest]:
    limit = {"sizeLimit": pod.ephemeral} if pod.ephemeral else {}
    yield pod.bundle.volume
    yield {"name": "accounts", "emptyDir": {"sizeLimit": ACCOUNTS_SIZE}}
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
