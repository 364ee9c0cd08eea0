"""What a unit comes to, and what may be in its pod template."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from components.bundle import Bundle
from components.flavor import Flavor
from components.gpu_unit import Unit, UnitSecrets, unit_manifests
from components.model import UnitRunAs
from components.unit_spec import HomeSpec, MountSpec, PortSpec, SshSpec, UnitSpec
from components.user_ca import UserCaSpec
from policy.law import violations
from tests.conftest import Golden
from tests.ssh_keys import ED25519
from tests.stack_files import KEY, image

SECRETS = UnitSecrets("HOST-KEY", {"tunnel.json": "TUNNEL", "ca.crt": "CA", "token": "TOKEN", "capability": "RIGHT"})


def a_unit(**spec: Any) -> Unit:
    """Give a unit of lab-a with SSH, changed by *spec*."""
    said = {"flavor": "h100", "image": image("python"), "ssh": SshSpec(authorized_keys=(KEY,)), **spec}
    return Unit(
        name="trainer",
        tenant="lab-a",
        namespace="lab-a",
        owner="test",
        spec=UnitSpec(**said),
        flavor=Flavor(gpus=1, cpu="8", memory="64Gi", ephemeral="50Gi"),
        image=image("python"),
        bundle=Bundle(image("bundle"), as_volume=False),
        tunnel_image=image("tunnel"),
        host="trainer.lab-a.ssh.example.com",
    )


FULL = {
    "command": ("python", "train.py"),
    "args": ("--epochs", "3"),
    "env": {"WANDB_MODE": "offline", "AN_EMPTY": ""},
    "ports": (PortSpec(name="http", port=8888, expose="tenant"), PortSpec(name="debug", port=5678)),
    "mounts": (MountSpec(storage="dataset", path="/data", read_only=True),),
    "home": HomeSpec(storage="home"),
    "run_as": UnitRunAs(uid=2000, gid=3000),
    "ssh": SshSpec(username="alice", authorized_keys=(KEY,)),
}


def test_a_unit_that_says_everything(golden: Golden) -> None:
    """The whole consequence of a full unit is reviewed as one file."""
    golden("unit/full.yaml", unit_manifests(a_unit(**FULL), SECRETS))


def test_a_unit_where_images_are_volumes(golden: Golden) -> None:
    """Where the cluster mounts images, the bundle's is a volume of the pod, and nothing is copied first."""
    made = unit_manifests(replace(a_unit(), bundle=Bundle(image("bundle"), as_volume=True)), SECRETS)
    golden("unit/image-volume.yaml", made["deployment"]["spec"]["template"])


def test_a_unit_that_says_little(golden: Golden) -> None:
    """The pod template of the smallest unit is reviewed as one file: it is what every tenant's work depends on."""
    golden("unit/small.yaml", unit_manifests(a_unit(), SECRETS)["deployment"]["spec"]["template"])


def template(**spec: Any) -> Any:
    """Give the pod template of a unit."""
    return unit_manifests(a_unit(**spec), SECRETS)["deployment"]["spec"]["template"]


@pytest.mark.parametrize(
    "changed",
    [
        {"running": False},
        {"ssh": SshSpec(authorized_keys=(ED25519,), user_ca=UserCaSpec(keys=(KEY,)))},
        {"ports": ()},
        {"disruption": "allow"},
        {"timeout": "20m"},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_what_never_replaces_a_pod(changed: dict[str, Any]) -> None:
    """Keys, budget, timeouts, tiers and stopping reach a unit without a change of its pod template."""
    assert template(**changed) == template()


@pytest.mark.parametrize("mode", ["workload", "image", "sidecar"])
def test_who_may_log_in_is_mounted_read_only(mode: Any) -> None:
    """In every mode the keys are the unit's ConfigMap, as a folder that follows it, and no container may write it."""
    spec = template(ssh=SshSpec(authorized_keys=(KEY,), mode=mode))["spec"]
    (name,) = [volume["name"] for volume in spec["volumes"] if "configMap" in volume]
    containers = [*spec["initContainers"], *spec["containers"]]
    mounts = [mount for one in containers for mount in one.get("volumeMounts", ()) if mount["name"] == name]

    assert next(v["configMap"]["name"] for v in spec["volumes"] if v["name"] == name) == "unit-trainer-keys"
    assert mounts
    assert all(mount["readOnly"] is True and "subPath" not in mount for mount in mounts)


def test_who_may_log_in_is_files_of_one_config_map() -> None:
    """Keys alone, or a CA's files beside them: these name its keys and, unless others are said, the unit's own host."""

    def files(**ssh: Any) -> Any:
        unit = a_unit(ssh=SshSpec(authorized_keys=(KEY,), **ssh))
        return unit_manifests(unit, SECRETS)["keys"]["data"]

    keys = {"authorized_keys": f"{KEY}\n"}
    ca = {**keys, "user_ca_keys": f"{ED25519}\n"}
    assert files() == keys
    assert files(user_ca=UserCaSpec(keys=(ED25519,))) == {**ca, "authorized_principals": f"{a_unit().host}\n"}
    said = UserCaSpec(keys=(ED25519,), principals=("lab-a", "ops"))
    assert files(user_ca=said) == {**ca, "authorized_principals": "lab-a\nops\n"}


def test_tier_secrets_never_enter_the_template() -> None:
    """Another token, authority, capability, server list or host key leaves the pod template as it is."""
    other = UnitSecrets("OTHER", dict.fromkeys(SECRETS.tunnel, "OTHER"))

    assert unit_manifests(a_unit(), other)["deployment"] == unit_manifests(a_unit(), SECRETS)["deployment"]


def test_each_secret_is_mounted_by_exactly_one_container() -> None:
    """The host key is in the unit's container alone, the capability in the tunnel client alone."""
    pod = template(**FULL)["spec"]
    containers = [*pod["initContainers"], *pod["containers"]]
    mounted = {
        volume: [c["name"] for c in containers if volume in {m["name"] for m in c["volumeMounts"]}]
        for volume in ("host-key", "tunnel")
    }

    assert mounted == {"host-key": ["unit"], "tunnel": ["tunnel"]}


def values(node: object) -> Iterator[str]:
    """Yield every string in plain data."""
    if isinstance(node, dict):
        for value in node.values():
            yield from values(value)
    elif isinstance(node, list):
        for value in node:
            yield from values(value)
    elif isinstance(node, str):
        yield node


def test_secrets_are_in_secrets_alone() -> None:
    """No secret value is in any object that is not a Secret."""
    secret = {"HOST-KEY", *SECRETS.tunnel.values()}
    open_objects = [m for m in unit_manifests(a_unit(**FULL), SECRETS).values() if m["kind"] != "Secret"]

    assert not secret & set(values(open_objects))


def test_shared_memory_is_half_of_memory() -> None:
    """Shared memory takes half of the unit's memory, so that data loaders work and the program keeps room."""
    shm = next(v for v in template()["spec"]["volumes"] if v["name"] == "shm")

    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "32Gi"}


def test_only_the_unit_container_holds_gpus() -> None:
    """The GPU is requested once, and every other container is told to see none."""
    pod = template()["spec"]
    others = [*pod["initContainers"], *pod["containers"][1:]]

    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert all("nvidia.com/gpu" not in json.dumps(c["resources"]) for c in others)
    assert all({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in c["env"] for c in others)


def test_a_unit_without_ssh_has_no_way_in() -> None:
    """Without an ssh block there is no key, no tunnel client and no path to the tunnel tier."""
    made = unit_manifests(a_unit(ssh=None), SECRETS)

    assert not {"keys", "host-key", "tunnel"} & set(made)
    assert [c["name"] for c in made["deployment"]["spec"]["template"]["spec"]["initContainers"]] == [
        "bundle",
        "accounts",
    ]
    assert not [name for name in made if name.startswith("walls")]


def service(**spec: Any) -> Any:
    """Give the Service of a unit, or None where it has none."""
    return unit_manifests(a_unit(**spec), SECRETS).get("service")


def test_a_unit_with_ssh_is_seen_by_its_service() -> None:
    """The gate admits what has a Service that says its host; with and without ports it is of one form."""
    for spec in ({"ports": ()}, FULL):
        assert service(**spec)["metadata"]["annotations"]["gpu-runtime/host"] == "trainer.lab-a.ssh.example.com"
        assert service(**spec)["spec"]["clusterIP"] == "None"
    assert "ports" not in service()["spec"]


def test_a_unit_without_ssh_announces_no_host() -> None:
    """Without ssh there is a Service for its ports alone, and no host in it for anybody to announce."""
    assert service(ssh=None) is None
    assert "gpu-runtime/host" not in service(**FULL | {"ssh": None})["metadata"]["annotations"]


def test_a_unit_that_is_stopped_announces_no_host() -> None:
    """From the moment that it shall not run nobody new gets in, whatever its pod does until it ends; the rest stays."""
    stopped, run = service(**FULL | {"running": False}), service(**FULL)
    host = run["metadata"]["annotations"].pop("gpu-runtime/host")

    assert host
    assert stopped == run


def test_only_ports_exposed_to_the_tenant_are_open() -> None:
    """A port that says nothing is reached by nobody."""
    policy = unit_manifests(a_unit(**FULL), SECRETS)["walls-in"]["spec"]

    units = {"podSelector": {"matchLabels": {"app.kubernetes.io/component": "unit"}}}
    assert policy["ingress"] == [{"from": [units], "ports": [{"protocol": "TCP", "port": 8888}]}]


def test_every_unit_obeys_the_law() -> None:
    """No way of saying a unit breaks a rule that one object decides."""
    made = [m for spec in ({}, FULL, {"ssh": None}) for m in unit_manifests(a_unit(**spec), SECRETS).values()]

    assert [violation.text for manifest in made for violation in violations(manifest)] == []
