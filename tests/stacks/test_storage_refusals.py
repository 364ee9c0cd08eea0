"""What a stack file may say of a storage: each mistake is refused with its path and advice."""

import copy
from typing import Any

import pytest

from stacks.load import parse
from stacks.resolve import Stack
from tests.stack_files import ENCRYPTED
from tests.stacks.test_refusals import PROD, UNIT, at, refused

HOME = "tenants.lab-a.storages.home"
SCRATCH = "tenants.lab-a.storages.scratch"
GPU = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("path", "value", "where", "advice"),
    [
        (
            f"{HOME}.placement",
            {"flavor": "a100"},
            "flavor",
            "'a100' is no flavor of this stack, which has h100",
        ),
        (f"{HOME}.placement", {"flavor": "h100", "nodeSelector": {"a": "b"}}, "", "names a flavor and nodes"),
        (f"{HOME}.placement", {"flavor": "h100", "tolerations": [GPU]}, "", "remove one"),
        (f"{HOME}.placement", {"nodeSelector": {"a b": "c"}}, "nodeSelector.a b", "a label's key"),
        (f"{HOME}.placement", {"node": "gpu-7"}, "node", "known here: flavor, nodeSelector, tolerations"),
        (
            f"{HOME}.placement",
            {"tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]},
            "tolerations.0.key",
            "no taint of a GPU vendor's domain",
        ),
        (f"{HOME}.runAs", {"uid": 0}, "uid", "never runs as root"),
    ],
)
def test_a_mistake_is_refused(path: str, value: object, where: str, advice: str) -> None:
    """The refusal names where the mistake is and what would be right."""
    said = refused(at(path, value))

    assert f"gpu-runtime:{path}.{where}".removesuffix(".") + ":" in said
    assert advice in said


def test_who_writes_is_who_owns() -> None:
    """A unit that writes a volume runs as its owner; who only reads is of its group, which each mount sets anew."""

    def reader(read_only: bool, run_as: dict[str, int]) -> dict[str, Any]:  # noqa: FBT001 - one of two cases
        mount = {"storage": "scratch", "path": "/scratch", "readOnly": read_only}
        unit = {"mounts": [mount], "home": None, "runAs": run_as}
        return {**PROD["tenants"]["lab-a"]["units"]["trainer"], **unit}

    other, outsider = {"uid": 2000, "gid": 1000}, {"uid": 1000, "gid": 2000}

    assert "give both the same runAs" in refused(at(UNIT, reader(read_only=False, run_as=other)))
    assert "give both the same runAs" in refused(at(UNIT, reader(read_only=True, run_as=outsider)))
    changed = copy.deepcopy(PROD)
    at(UNIT, reader(read_only=True, run_as=other))(changed)
    assert parse(changed, ENCRYPTED).tenants["lab-a"].units["trainer"].run_as.uid == 2000


def test_a_home_is_written() -> None:
    """A home is no mount, and written all the same."""
    said = refused(at(f"{UNIT}.runAs", {"uid": 2000, "gid": 1000}))

    assert "storage home is owned by 1000:1000" in said


def test_placement_follows_the_stack_file() -> None:
    """A volume that one node mounts goes with its unit while that runs, one of many nodes does not."""
    stack = Stack(parse(PROD, ENCRYPTED), "prod")
    placed = {alias: storage.placement for alias, storage in stack.storages.items()}

    assert placed["scratch.lab-a"].beside == placed["home.lab-a"].beside == "trainer"
    assert placed["imagenet.lab-a"].beside is None
    assert [one["key"] for one in placed["imagenet.lab-a"].tolerations] == ["nvidia.com/gpu"]

    changed = copy.deepcopy(PROD)
    at(f"{UNIT}.running", value=False)(changed)
    assert Stack(parse(changed, ENCRYPTED), "prod").storages["home.lab-a"].placement.beside is None


def test_a_namespace_stays_with_what_is_protected() -> None:
    """A namespace that went would take its claims along, whatever protects them."""
    changed = copy.deepcopy(PROD)
    gone = {"size": "1Gi", "deleteWithStack": True}
    changed["tenants"]["lab-b"]["storages"] = {"scratch": gone}
    assert not Stack(parse(changed, ENCRYPTED), "prod").tenants["lab-b"].retained

    changed["tenants"]["lab-b"]["storages"] = {"scratch": {**gone, "protect": True}}
    assert Stack(parse(changed, ENCRYPTED), "prod").tenants["lab-b"].retained
