"""What the end of a unit's program comes to in its pod."""

from typing import Any

import pytest

from components import exit_code
from components.exit_code import exit_container, exit_volume
from components.gpu_unit import unit_manifests
from policy.law import violations
from tests.components.test_unit import SECRETS, a_unit, values
from tests.stack_files import image

COMMAND = ("python", "train.py")


def pod(**spec: Any) -> dict[str, Any]:
    """Give the pod's spec of a unit."""
    found: dict[str, Any] = unit_manifests(a_unit(**spec), SECRETS)["deployment"]["spec"]["template"]["spec"]
    return found


def held_for(**spec: Any) -> str | None:
    """Give what the launcher is told; None where it is not to hold."""
    said = {env["name"]: env.get("value") for env in pod(**spec)["containers"][0]["env"]}
    return said.get(exit_code.HOLD_ENV)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"command": COMMAND}, "10"),
        ({"command": COMMAND, "start_seconds": 90}, "90"),
        ({"command": COMMAND, "after_exit": "restart"}, None),
        ({"command": COMMAND, "ssh": None}, None),
        ({"command": COMMAND, "ssh": None, "after_exit": "hold"}, "10"),
        ({}, None),
        ({"after_exit": "hold"}, None),
    ],
)
def test_who_is_held(spec: dict[str, Any], told: str | None) -> None:
    """A unit with SSH and a program is held, unless it says otherwise; an idle unit has no program that could end."""
    assert held_for(**spec) == told
    assert (exit_container(image("bundle")) in pod(**spec)["containers"]) == (told is not None)
    assert (exit_volume() in pod(**spec)["volumes"]) == (told is not None)


def test_a_unit_that_is_not_held_has_nothing_of_it() -> None:
    """Without SSH, nothing of holding is in the sacred pod template, not even a default."""
    assert not {"exit", exit_code.DIR, exit_code.HOLD_ENV} & set(values(pod(command=COMMAND, ssh=None)))


def test_holding_shares_nothing_but_a_pipe() -> None:
    """That container and the program have one volume in common, and it holds nothing else."""
    spec = pod(command=COMMAND)
    (sidecar,) = (container for container in spec["containers"] if container["name"] == "exit")

    assert sidecar["volumeMounts"] == [{"name": "exit", "mountPath": "/.gpu-runtime-exit"}]
    assert [
        c["name"]
        for c in [*spec["initContainers"], *spec["containers"]]
        if sidecar["volumeMounts"][0] in c["volumeMounts"]
    ] == ["unit", "exit"]


def test_a_held_unit_obeys_the_law() -> None:
    """No rule is broken by it."""
    made = unit_manifests(a_unit(command=COMMAND, ssh=None, after_exit="hold"), SECRETS).values()

    assert [violation.text for manifest in made for violation in violations(manifest)] == []
