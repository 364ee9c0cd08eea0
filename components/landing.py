"""The three ways in which a login lands in a unit: how the program is started, what is mounted, what runs beside it.

`workload`: our sshd in the unit's own container, around the user's program. `image`: the image brings its own sshd and
finds host key and keys at fixed paths (images/ssh-workspace). `sidecar`: our sshd in a container beside the program.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal

from components import names
from components.bundle import LAUNCH, LISTENING, NO_GPU, SERVE, mount
from components.exit_code import REQUESTS as EXIT_REQUESTS
from components.model import Manifest, quantity, requirements
from components.unit_parts import HOST_KEY_DIR, KEYS_DIR, RUN_DIR, Mode, UnitPod, login_env
from policy.baseline import container_security

ACCOUNT_FILES: Mapping[str, str] = {"/etc/passwd": "passwd", "/etc/group": "group"}
"""Where the login's account goes in a container, and the file that was prepared for it."""

PROFILE: Mapping[str, str] = {"/etc/profile.d/zz-gpu-runtime.sh": "profile.sh"}
"""Login shells read it last; it knows what our sshd wrote down."""

BESIDE: Mapping[str, str] = {"/etc/passwd": "passwd.beside"}
"""The account in a container without the user's image: its shell is the bundle's."""

SSHD_REQUESTS = {"cpu": "20m", "memory": "32Mi"}
SSHD_LIMITS = {"cpu": "1", "memory": "512Mi"}
"""An sshd (4 MiB), and a few sessions that copy files; what people run in a session of `sidecar` is bounded by it."""

TUNNEL_REQUESTS = {"cpu": "20m", "memory": "64Mi"}
TUNNEL_LIMITS = {"cpu": "1", "memory": "192Mi"}
"""The supervisor (24 MiB) and one frpc (22 MiB) per tunnel server; a full core while somebody copies a data set."""

STARTUP_PROBE: Manifest = {
    "exec": {"command": LISTENING},
    "periodSeconds": 1,
    "timeoutSeconds": 5,
    "failureThreshold": 60,
}
"""Holds the program back until sshd listens, as system A does, but for a few seconds at most: the script sees to it."""


def program(pod: UnitPod) -> Manifest:
    """Say how the unit's container starts: by our launcher in `workload`, else as Kubernetes does."""
    if pod.mode == "workload":
        said: dict[str, list[str]] = {"command": LAUNCH, "args": [*pod.command, *pod.args]}
    else:
        said = {"command": list(pod.command), "args": list(pod.args)}
    return {key: words for key, words in said.items() if words}


def container_env(pod: UnitPod) -> list[Manifest]:
    """Give what an sshd in the unit's own container must know."""
    return [] if pod.mode == "sidecar" else login_env(pod)


def tools(pod: UnitPod) -> Iterable[Manifest]:
    """Give the mounts with which our launcher works in the unit's own container."""
    if pod.mode == "workload":
        yield pod.bundle.mount
        yield mount("run", RUN_DIR)


def login(pod: UnitPod) -> Iterable[Manifest]:
    """Give the mounts of accounts, and of host key and keys where sshd runs in the unit's own container."""
    yield from _files({**ACCOUNT_FILES, **(PROFILE if pod.mode == "workload" else {})})
    if pod.username and pod.mode != "sidecar":
        yield from _keys()


def sidecars(pod: UnitPod) -> Iterable[Manifest]:
    """Give the containers that serve a mode from beside the program."""
    if pod.username and pod.mode == "sidecar":
        yield _sshd(pod)


def requests_beside(mode: Mode | None, *, held: bool) -> dict[str, Decimal]:
    """Sum what a unit's pod requests beside its own container, by resource; *mode* is None for a unit without SSH."""
    counted = [TUNNEL_REQUESTS] if mode else []
    counted += [SSHD_REQUESTS] if mode == "sidecar" else []
    counted += [EXIT_REQUESTS] if held else []
    return {what: sum((quantity(one[what]) for one in counted), Decimal(0)) for what in ("cpu", "memory")}


def _sshd(pod: UnitPod) -> Manifest:
    """Serve logins beside the program, with its home, its storages and its /tmp, and no GPU."""
    mounts = [
        pod.bundle.mount,
        mount("run", RUN_DIR),
        mount("tmp", "/tmp"),  # noqa: S108 - a mount path inside the container
        mount("home", pod.home),
        *_files({**ACCOUNT_FILES, **PROFILE, **BESIDE}),
        *_keys(),
        *(mount(at.claim, at.path, read_only=at.read_only) for at in pod.mounts),
    ]
    return {
        "name": "ssh",
        "image": pod.bundle.image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "command": SERVE,
        "env": [*login_env(pod), NO_GPU],
        "startupProbe": STARTUP_PROBE,
        "resources": requirements(SSHD_REQUESTS, SSHD_LIMITS),
        "securityContext": container_security(),
        "volumeMounts": mounts,
    }


def _files(places: Mapping[str, str]) -> Iterable[Manifest]:
    for path, source in places.items():
        yield {**mount("accounts", path, read_only=True), "subPath": source}


def _keys() -> Iterable[Manifest]:
    yield mount("host-key", HOST_KEY_DIR, read_only=True)
    yield mount("keys", KEYS_DIR, read_only=True)


def keys_data(login: Mapping[str, str], *, remote_forwarding: bool) -> dict[str, str]:
    """Give the files of `KEYS_DIR`: who may log in, and what may be forwarded. sshd follows them without a restart."""
    forwarding = {names.FORWARDING_FILE: "all\n"} if remote_forwarding else {}
    return {**login, **forwarding}
