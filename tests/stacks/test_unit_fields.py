"""Bad wishes of flavors and units, and what their GPUs come to in a tenant's quota."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from stacks.load import parse
from stacks.resolve import Stack
from tests.stacks.test_refusals import ENCRYPTED, LAB, PROD, UNIT, at, refused

Change = Callable[[dict[str, Any]], object]
FLAVOR = "flavors.h100x8"
TOLERATION = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
CLAIM = {"deviceClass": "gpu.nvidia.com", "count": 8}
HUB = {"secret": "hub", "key": "token"}
BARE = {"cpu": "128", "memory": "1Ti"}


def tolerating(**said: Any) -> Change:
    """Give the trainer's flavor one toleration."""
    return at(f"{FLAVOR}.tolerations", [{**TOLERATION, **said}])


def probing(name: str = "readiness", **said: Any) -> Change:
    """Give the trainer a probe."""
    return at(f"{UNIT}.probes", {name: said})


def secret_env(**said: Any) -> Change:
    """Give the trainer a variable from a Secret."""
    return at(f"{UNIT}.secretEnv", {"TOKEN": {**HUB, **said}})


@pytest.mark.parametrize(
    ("change", "path", "advice"),
    [
        (at(f"{FLAVOR}.resource", "cpu"), f"{FLAVOR}.resource", "'cpu': must be a GPU resource such as nvidia.com/gpu"),
        (at(f"{FLAVOR}.resource", "example.com/gpu"), f"{FLAVOR}.resource", "know no other domains"),
        (at(f"{FLAVOR}.resource", "requests.nvidia.com/gpu"), f"{FLAVOR}.resource", "must be a GPU resource"),
        (at(f"{FLAVOR}.resource", "nvidia.com/gpumem"), f"{FLAVOR}.resource", "say it in `resources`"),
        (at(f"{FLAVOR}.resources", {"rdma/hca": 1}), f"{FLAVOR}.resources.rdma/hca", "must be a GPU resource"),
        (
            at(f"{FLAVOR}.resources", {"nvidia.com/gpumem": 0}),
            "resources.nvidia.com/gpumem",
            "greater than or equal to 1",
        ),
        (at(f"{FLAVOR}.resources", {"nvidia.com/gpu": 1}), f"{FLAVOR}.resources", "is counted by `gpus`"),
        (
            at(FLAVOR, {**BARE, "gpus": 0, "resources": {"nvidia.com/gpumem": 8000}}),
            f"{FLAVOR}.resources",
            "a share of what? say how many GPUs",
        ),
        (at(f"{FLAVOR}.claim", CLAIM), f"{FLAVOR}.claim", "is there beside gpus: GPUs come from a claim or"),
        (
            at(FLAVOR, {**BARE, "claim": CLAIM, "resources": {"nvidia.com/gpumem": 8000}}),
            f"{FLAVOR}.claim",
            "is there beside resources",
        ),
        (at(FLAVOR, {**BARE, "claim": {**CLAIM, "count": 33}}), f"{FLAVOR}.claim.count", "less than or equal to 32"),
        (at(FLAVOR, {**BARE, "claim": {"deviceClass": "GPU"}}), f"{FLAVOR}.claim.deviceClass", "lower-case letters"),
        (at(FLAVOR, {**BARE, "claim": {**CLAIM, "adminAccess": True}}), "claim.adminAccess", "is no key"),
        (tolerating(key="dedicated"), f"{FLAVOR}.tolerations.0.key", "none of cluster.gpuTaints: none"),
        (tolerating(key="node-role.kubernetes.io/control-plane"), f"{FLAVOR}.tolerations.0.key", "no taint of a GPU"),
        (tolerating(key=""), f"{FLAVOR}.tolerations.0.key", "must be a label's key"),
        (tolerating(operator="Lt"), f"{FLAVOR}.tolerations.0.operator", "'Exists' or 'Equal'"),
        (tolerating(value="x"), f"{FLAVOR}.tolerations.0.value", "counts with operator Equal only"),
        (tolerating(operator="Equal"), f"{FLAVOR}.tolerations.0.value", "operator Equal compares it"),
        (tolerating(tolerationSeconds=60), f"{FLAVOR}.tolerations.0.tolerationSeconds", "no meaning with NoSchedule"),
        (at(f"{FLAVOR}.tolerations", [{"key": "nvidia.com/gpu"}]), f"{FLAVOR}.tolerations.0.effect", "is missing"),
        (
            at(FLAVOR, {**BARE, "gpus": 0, "tolerations": [TOLERATION]}),
            f"{FLAVOR}.tolerations.0",
            "is for nodes with GPUs, and the flavor has none",
        ),
        (at("cluster.gpuTaints", ["node.kubernetes.io/unreachable"]), "cluster.gpuTaints", "Kubernetes' own"),
        (at("cluster.gpuTaints", ["node-role.kubernetes.io/control-plane"]), "cluster.gpuTaints", "no unit may stand"),
        (at("cluster.gpuTaints", [""]), "cluster.gpuTaints.0", "must be a label's key"),
        (at(f"{FLAVOR}.nodeSelector", {"gpu": "a b"}), f"{FLAVOR}.nodeSelector.gpu", "a label's value"),
        (at(f"{FLAVOR}.runtimeClass", "NVIDIA"), f"{FLAVOR}.runtimeClass", "lower-case letters"),
        (at(f"{FLAVOR}.priorityClass", "system-node-critical"), f"{FLAVOR}.priorityClass", "belongs to Kubernetes"),
        (at(f"{UNIT}.priorityClass", "system-cluster-critical"), f"{UNIT}.priorityClass", "belongs to Kubernetes"),
        (probing(), f"{UNIT}.probes.readiness", "says 0 ways to ask"),
        (probing(tcpSocket={"port": 80}, exec={"command": ["x"]}), f"{UNIT}.probes.readiness", "says 2 ways to ask"),
        (
            probing(tcpSocket={"port": "web"}),
            f"{UNIT}.probes.readiness.port",
            "'web' is no port of the unit: tensorboard",
        ),
        (
            probing(tcpSocket={"port": 0}),
            f"{UNIT}.probes.readiness.tcpSocket.port",
            "0: must be a port from 1 to 65535",
        ),
        (probing(tcpSocket={"port": True}), f"{UNIT}.probes.readiness.tcpSocket.port", "must be a port from"),
        (probing(tcpSocket={"port": 2222}), f"{UNIT}.probes.readiness.port", "sshd's own"),
        (probing(httpGet={"port": 80, "host": "10.0.0.1"}), f"{UNIT}.probes.readiness.httpGet.host", "is no key"),
        (probing(httpGet={"port": 80, "path": "x"}), f"{UNIT}.probes.readiness.httpGet.path", "such as /healthz"),
        (
            probing(httpGet={"port": 80, "scheme": "ftp"}),
            f"{UNIT}.probes.readiness.httpGet.scheme",
            "'HTTP' or 'HTTPS'",
        ),
        (probing(exec={"command": []}), f"{UNIT}.probes.readiness.exec.command", "at least one entry"),
        (probing(tcpSocket={"port": 80}, periodSeconds=0), f"{UNIT}.probes.readiness.periodSeconds", "equal to 1"),
        (probing(tcpSocket={"port": 80}, failureThreshold=1001), "readiness.failureThreshold", "equal to 1000"),
        (
            probing("liveness", tcpSocket={"port": 80}, successThreshold=2),
            f"{UNIT}.probes.liveness.successThreshold",
            "liveness succeeds at once",
        ),
        (at(f"{UNIT}.grace", "2h"), f"{UNIT}.grace", "at most 3600s"),
        (at(f"{UNIT}.grace", "30m"), f"{UNIT}.grace", "is not below the timeout 30m"),
        (at(f"{UNIT}.grace", "0s"), f"{UNIT}.grace", "'0s': must be a duration such as 90s"),
        (at(f"{UNIT}.startSeconds", 1800), f"{UNIT}.timeout", "30m is not above startSeconds, 1800 s"),
        (at(f"{UNIT}.timeout", "10s"), f"{UNIT}.timeout", "10s is not above startSeconds, 10 s"),
        (secret_env(secret="unit-trainer-tunnel"), f"{UNIT}.secretEnv.TOKEN.secret", "are the platform's own"),
        (secret_env(secret="unit-notebook-host-key"), f"{UNIT}.secretEnv.TOKEN.secret", "begin with unit- are the"),
        (secret_env(secret="Hub"), f"{UNIT}.secretEnv.TOKEN.secret", "the name of a Secret"),
        (secret_env(key="a/b"), f"{UNIT}.secretEnv.TOKEN.key", "must be a key of a Secret"),
        (
            at(f"{UNIT}.secretEnv", {"HOME": HUB}),
            f"{UNIT}.secretEnv.HOME",
            "set by the platform",
        ),
        (
            at(f"{UNIT}.secretEnv", {"NVIDIA_VISIBLE_DEVICES": HUB}),
            f"{UNIT}.secretEnv.NVIDIA_VISIBLE_DEVICES",
            "what its flavor grants",
        ),
        (
            at(f"{UNIT}.secretEnv", {"WANDB_MODE": HUB}),
            f"{UNIT}.secretEnv.WANDB_MODE",
            "is in `env` as well",
        ),
        (at(f"{UNIT}.env", {"CUDA_DISABLE_CONTROL": "true"}), f"{UNIT}.env.CUDA_DISABLE_CONTROL", "what its flavor"),
        (at(f"{UNIT}.userNamespace", "yes"), f"{UNIT}.userNamespace", "true or false"),
        (at(f"{LAB}.pullSecrets", ["unit-trainer-host-key"]), f"{LAB}.pullSecrets.0", "are the platform's own"),
        (at(f"{LAB}.pullSecrets", ["a_b"]), f"{LAB}.pullSecrets.0", "the name of a Secret"),
    ],
)
def test_a_bad_wish_is_refused_with_path_and_advice(change: Change, path: str, advice: str) -> None:
    """The refusal names where the mistake is and what would be right."""
    said = refused(change)

    assert path in said
    assert advice in said


def test_a_secret_written_into_the_stack_file_is_not_shown() -> None:
    """Whoever writes the value where the Secret's name belongs meets a refusal that does not repeat it."""
    said = refused(at(f"{UNIT}.secretEnv", {"TOKEN": "hunter2"}))

    assert f"{UNIT}.secretEnv.TOKEN: must be a table of keys" in said
    assert "hunter2" not in said


def test_a_units_node_selector_may_not_contradict_its_flavors() -> None:
    """A unit that wants other nodes than its flavor would never start."""

    def contradicting(config: dict[str, Any]) -> None:
        config["flavors"]["h100x8"]["nodeSelector"] = {"gpu": "h100", "zone": "a"}
        config["tenants"]["lab-a"]["units"]["trainer"]["nodeSelector"] = {"gpu": "a100", "zone": "a"}

    said = refused(contradicting)

    assert f"{UNIT}.nodeSelector.gpu: 'a100' is not the 'h100' of flavor h100x8" in said
    assert "nodeSelector.zone" not in said


def test_a_taint_that_the_stack_calls_its_gpus_may_be_tolerated() -> None:
    """Sites that mark GPU nodes by a key of their own say so once."""
    changed = copy.deepcopy(PROD)
    at("cluster.gpuTaints", ["dedicated"])(changed)
    tolerating(key="dedicated", operator="Equal", value="lab", effect="NoExecute")(changed)

    assert parse(changed, ENCRYPTED).flavors["h100x8"].tolerations[0].toleration_seconds is None


def test_pull_secrets_are_the_accounts() -> None:
    """A further registry restarts no unit: the account hands its Secrets to new pods, no pod template has them."""
    changed = copy.deepcopy(PROD)
    at(f"{LAB}.pullSecrets", ["registry-a", "registry-b"])(changed)
    before, after = (Stack(parse(config, ENCRYPTED), "prod").manifests() for config in (PROD, changed))
    differing = [new for old, new in zip(before, after, strict=True) if old != new]

    assert [(m["kind"], m["imagePullSecrets"]) for m in differing] == [
        ("ServiceAccount", [{"name": "registry-a"}, {"name": "registry-b"}])
    ]


@pytest.mark.parametrize(("namespace", "source"), [(False, "image"), (True, "emptyDir")])
def test_no_image_is_a_volume_in_a_user_namespace(namespace: bool, source: str) -> None:  # noqa: FBT001 - a field's value
    """Where nodes mount images, a pod in a user namespace still gets the bundle's content copied."""
    changed = copy.deepcopy(PROD)
    at("cluster.imageVolumes", True)(changed)  # noqa: FBT003 - a field's value
    at(f"{UNIT}.userNamespace", namespace)(changed)
    made = Stack(parse(changed, ENCRYPTED), "prod").manifests()
    trainer = next(m for m in made if m["kind"] == "Deployment" and m["metadata"]["name"] == "unit-trainer")
    volumes = {volume.pop("name"): volume for volume in trainer["spec"]["template"]["spec"]["volumes"]}

    assert list(volumes["bundle"]) == [source]
