"""What a unit and a flavor may ask of their pod: probes, Secrets, nodes, shares and claims of GPUs."""

import json
from dataclasses import replace
from typing import Any

import pytest

from components.flavor import ClaimSpec, Flavor, TolerationSpec, is_share
from components.gpu_unit import unit_manifests
from components.health import CheckSpec, ExecSpec, HttpGetSpec, ProbesSpec, TcpSocketSpec
from components.model import UnitRunAs
from components.unit_spec import SecretKeySpec
from policy.law import violations
from tests.components.test_unit import FULL, SECRETS, a_unit
from tests.conftest import Golden

SIZE: dict[str, Any] = {"cpu": "8", "memory": "64Gi"}
CLAIMED = Flavor(**SIZE, claim=ClaimSpec(device_class="gpu.nvidia.com", count=2))
SHARED = Flavor(**SIZE, beside={"nvidia.com/gpumem": 8000, "nvidia.com/gpucores": 30})
MIGS = Flavor(**SIZE, resource="nvidia.com/mig-1g.10gb", gpus=2, beside={"nvidia.com/mig-2g.20gb": 1})
PLACED = Flavor(
    **SIZE,
    node_selector={"gpu": "h100"},
    tolerations=(
        TolerationSpec(key="nvidia.com/gpu", effect="NoSchedule"),
        TolerationSpec(key="dedicated", operator="Equal", value="lab", effect="NoExecute", toleration_seconds=60),
    ),
    runtime_class="nvidia",
    priority_class="normal",
)
WISHES: dict[str, Any] = {
    "secret_env": {
        "WANDB_API_KEY": SecretKeySpec(secret="wandb", key="token"),
        "HF_TOKEN": SecretKeySpec(secret="hub", key="t"),
    },
    "probes": ProbesSpec(
        startup=CheckSpec(tcp_socket=TcpSocketSpec(port="http"), failure_threshold=60),
        readiness=CheckSpec(http_get=HttpGetSpec(path="/healthz", port=8888), success_threshold=2),
        liveness=CheckSpec(execute=ExecSpec(command=("test", "-e", "/tmp/alive")), initial_delay_seconds=30),  # noqa: S108 - in the container
    ),
    "grace": "2m",
    "node_selector": {"zone": "a"},
    "priority_class": "high",
    "user_namespace": True,
}


def made(flavor: Flavor, **spec: Any) -> dict[str, Any]:
    """Build the objects of a unit of *flavor*."""
    return unit_manifests(replace(a_unit(**spec), flavor=flavor), SECRETS)


def pod(flavor: Flavor, **spec: Any) -> dict[str, Any]:
    """Give the pod's spec."""
    found: dict[str, Any] = made(flavor, **spec)["deployment"]["spec"]["template"]["spec"]
    return found


def env(flavor: Flavor) -> dict[str, str]:
    """Give the plain variables of the unit's container."""
    return {said["name"]: said["value"] for said in pod(flavor)["containers"][0]["env"]}


def test_every_wish(golden: Golden) -> None:
    """What each wish comes to in the pod is reviewed as one file."""
    golden("unit/wishes.yaml", made(PLACED, **FULL, **WISHES)["deployment"]["spec"]["template"])


def test_a_claim(golden: Golden) -> None:
    """So are a claim's template and the pod that names it."""
    objects = made(CLAIMED)
    golden("unit/claim.yaml", {role: objects[role] for role in ("claim", "deployment")})


@pytest.mark.parametrize("flavor", [CLAIMED, SHARED, MIGS, PLACED], ids=["claimed", "shared", "migs", "placed"])
def test_every_wish_obeys_the_law(flavor: Flavor) -> None:
    """No flavor and no wish breaks a rule that one object decides; the claim's template is known to the last field."""
    objects = made(flavor, **FULL, **WISHES).values()

    assert [violation.text for manifest in objects for violation in violations(manifest)] == []


def test_only_the_units_container_holds_the_claim() -> None:
    """A sidecar or an init container that held it would see the GPUs, too."""
    spec = pod(CLAIMED)

    assert spec["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]
    assert all(
        "claims" not in container["resources"] for container in [*spec["initContainers"], *spec["containers"][1:]]
    )
    assert not any("nvidia.com" in name for name in spec["containers"][0]["resources"]["limits"])


def test_another_claim_is_another_template() -> None:
    """The API server lets nobody change a template: another content is another name, in the pod as well."""
    more = CLAIMED.model_copy(update={"claim": ClaimSpec(device_class="gpu.nvidia.com", count=3)})
    names = [
        (made(flavor)["claim"]["metadata"]["name"], pod(flavor)["resourceClaims"][0]["resourceClaimTemplateName"])
        for flavor in (CLAIMED, more)
    ]

    assert all(template == claimed for template, claimed in names)
    assert names[0] != names[1]


def test_shares_and_profiles_are_requested_beside_the_gpus() -> None:
    """All are requested as limited, in the one container, and only devices are counted for the program."""
    resources = pod(SHARED)["containers"][0]["resources"]

    assert resources["limits"] == resources["requests"]
    assert resources["limits"].items() >= {
        ("nvidia.com/gpu", "1"),
        ("nvidia.com/gpumem", "8000"),
        ("nvidia.com/gpucores", "30"),
    }
    assert [env(flavor)["GPU_COUNT"] for flavor in (SHARED, MIGS, CLAIMED)] == ["1", "3", "2"]


@pytest.mark.parametrize(
    ("flavor", "void"),
    [(SHARED, False), (CLAIMED, True), (Flavor(**SIZE, gpus=0), True)],
    ids=["plugin", "claim", "none"],
)
def test_only_a_device_plugin_may_choose_the_gpus(flavor: Flavor, void: Any) -> None:
    """Where no plugin sets the variable, an image that says "all" is overruled; a claim's devices come without it."""
    assert (env(flavor).get("NVIDIA_VISIBLE_DEVICES") == "void") is void


@pytest.mark.parametrize(
    ("resource", "share"),
    [
        ("nvidia.com/gpumem", True),
        ("nvidia.com/gpumem-percentage", True),
        ("nvidia.com/gpucores", True),
        ("volcano.sh/vgpu-memory", True),
        ("nvidia.com/gpu", False),
        ("nvidia.com/mig-1g.10gb", False),
        ("nvidia.com/gpu.shared", False),
        ("aws.amazon.com/neuroncore", False),
    ],
)
def test_shares_are_told_from_devices(resource: str, share: Any) -> None:
    """Megabytes and per cents are no GPUs: counted as such, they would burst every quota."""
    assert is_share(resource) is share


def test_a_unit_in_a_user_namespace_is_still_no_root() -> None:
    """The namespace is a further wall and takes none of the others away."""
    spec = pod(PLACED, user_namespace=True)

    assert (spec["hostUsers"], spec["securityContext"]["runAsNonRoot"]) == (False, True)


def test_root_inside_is_said_and_obeys_the_law_there_alone() -> None:
    """A unit as root is one in a user namespace, or one that the law refuses; nothing else of its pod differs."""
    root = {**FULL, "run_as": UnitRunAs(uid=0, gid=1000)}
    inside, outside = (made(PLACED, **root, user_namespace=said) for said in (True, False))

    assert [violation.text for manifest in inside.values() for violation in violations(manifest)] == []
    assert {violation.check for manifest in outside.values() for violation in violations(manifest)} == {"non-root"}


def test_probes_are_the_programs_alone() -> None:
    """The tunnel has none: its end must never empty a Service or restart a pod."""
    spec = pod(PLACED, **FULL, **WISHES)

    assert {key for key in spec["containers"][0] if key.endswith("Probe")} == {
        "startupProbe",
        "readinessProbe",
        "livenessProbe",
    }
    others = [*spec["initContainers"], *spec["containers"][1:]]
    assert not [c["name"] for c in others if any(key.endswith("Probe") for key in c)]


def test_a_units_wishes_win_over_its_flavors() -> None:
    """The unit's priority takes the flavor's place; its node selector stands beside it."""
    spec = pod(PLACED, **WISHES)

    assert spec["priorityClassName"] == "high"
    assert spec["nodeSelector"] == {"gpu": "h100", "zone": "a"}
    assert pod(PLACED)["priorityClassName"] == "normal"


def test_the_order_of_tolerations_restarts_nobody() -> None:
    """The same tolerations in another order are the same pod."""
    turned = PLACED.model_copy(update={"tolerations": PLACED.tolerations[::-1]})

    assert json.dumps(pod(turned), sort_keys=True) == json.dumps(pod(PLACED), sort_keys=True)
