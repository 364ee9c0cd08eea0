"""Where a login lands: what each mode puts into the pod, and what it leaves alone."""

from dataclasses import replace
from typing import Any

import pytest

from components.gpu_unit import unit_manifests
from components.landing import requests_beside
from components.unit_spec import SshSpec
from policy.law import violations
from tests.components.test_unit import FULL, SECRETS, a_unit
from tests.conftest import Golden
from tests.stack_files import KEY

OTHERS = ("image", "sidecar")
MODES = ("workload", *OTHERS)


def ssh(mode: str) -> SshSpec:
    """Give Alice's ssh block."""
    return SshSpec.model_validate({"username": "alice", "authorizedKeys": [KEY], "mode": mode})


def template(mode: str, **spec: Any) -> Any:
    """Give the pod template of the unit that says everything, in *mode*."""
    said = {**FULL, "ssh": ssh(mode), **spec}
    return unit_manifests(a_unit(**said), SECRETS)["deployment"]["spec"]["template"]


def containers(mode: str, **spec: Any) -> dict[str, Any]:
    """Give the containers of the pod by name."""
    pod = template(mode, **spec)["spec"]
    return {one["name"]: one for one in (*pod["initContainers"], *pod["containers"])}


def mounts(container: dict[str, Any]) -> dict[str, str]:
    """Give path and volume of each mount."""
    return {one["mountPath"]: one["name"] for one in container["volumeMounts"]}


@pytest.mark.parametrize("mode", OTHERS)
def test_the_template_of_a_mode(golden: Golden, mode: str) -> None:
    """What a mode comes to is reviewed as one file: it is what every tenant's work depends on."""
    golden(f"unit/{mode}.yaml", template(mode))


@pytest.mark.parametrize("mode", OTHERS)
@pytest.mark.parametrize(
    ("said", "started"),
    [
        ({"command": (), "args": ()}, {}),
        ({"command": (), "args": ("train",)}, {"args": ["train"]}),
        ({"command": ("python",), "args": ()}, {"command": ["python"]}),
        ({"command": ("python",), "args": ("a.py",)}, {"command": ["python"], "args": ["a.py"]}),
    ],
    ids=("neither", "args", "command", "both"),
)
def test_without_our_launcher_a_program_starts_as_in_kubernetes(
    mode: str, said: dict[str, Any], started: dict[str, Any]
) -> None:
    """`command` stands for the image's ENTRYPOINT and `args` for its CMD, and each is left to the image unless said."""
    unit = containers(mode, **said)["unit"]

    assert {key: unit[key] for key in ("command", "args") if key in unit} == started


def test_an_image_with_its_own_sshd_finds_what_it_needs() -> None:
    """Host key and keys are read-only at fixed paths, two variables say who logs in, no program of ours is there."""
    unit = containers("image")["unit"]
    read_only = {one["mountPath"] for one in unit["volumeMounts"] if one.get("readOnly")}

    assert {"/.gpu-runtime-host", "/.gpu-runtime-keys", "/etc/passwd", "/etc/group"} <= read_only
    assert "/.gpu-runtime" not in mounts(unit)
    assert {"name": "GPU_RUNTIME_SSH_USER", "value": "alice"} in unit["env"]
    assert {"name": "GPU_RUNTIME_HOME", "value": "/home/alice"} in unit["env"]


def test_a_sidecar_has_the_units_files_and_none_of_its_gpus() -> None:
    """Logins beside the program see its home, its /tmp and its storages as it does; the GPU is the program's alone."""
    there = containers("sidecar")
    beside, unit = mounts(there["ssh"]), mounts(there["unit"])

    for path in ("/home/alice", "/tmp", "/data"):  # noqa: S108 - in the container
        assert beside[path] == unit[path]
    assert all("gpu" not in resource for resource in there["ssh"]["resources"]["limits"])
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in there["ssh"]["env"]


def test_the_host_key_is_where_sshd_is() -> None:
    """Exactly one container has the host key: beside the program in `sidecar`, the program's own otherwise."""
    holders = {
        mode: [name for name, one in containers(mode).items() if "/.gpu-runtime-host" in mounts(one)] for mode in MODES
    }

    assert holders == {"workload": ["unit"], "image": ["unit"], "sidecar": ["ssh"]}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_obeys_the_law(mode: str) -> None:
    """No mode breaks a rule that its own objects decide."""
    made = unit_manifests(a_unit(**{**FULL, "ssh": ssh(mode)}), SECRETS).values()

    assert [violation.text for manifest in made for violation in violations(manifest)] == []


def test_the_quota_counts_what_runs_beside() -> None:
    """What a pod requests beside its own container is what its sidecars request."""
    for mode in MODES:
        named = [one for name, one in containers(mode).items() if name in ("ssh", "tunnel", "exit")]
        cpu = sum(int(one["resources"]["requests"]["cpu"].removesuffix("m")) for one in named)
        held = "exit" in containers(mode)
        assert requests_beside(ssh(mode).mode, held=held)["cpu"] * 1000 == cpu
    assert set(requests_beside(None, held=False).values()) == {0}


def test_remote_forwarding_is_a_file_beside_the_keys() -> None:
    """Whether ports of clients may be opened in a unit changes no pod template, and is off unless the stack says so."""
    off, on = a_unit(**FULL), replace(a_unit(**FULL), remote_forwarding=True)
    closed, opened = (unit_manifests(unit, SECRETS) for unit in (off, on))

    assert "forwarding" not in closed["keys"]["data"]
    assert opened["keys"]["data"]["forwarding"] == "all\n"
    assert closed["deployment"] == opened["deployment"]
