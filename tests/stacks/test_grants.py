"""What the GPUs of units, however they are handed out, come to in their tenant's quota."""

import copy
import re
from decimal import Decimal
from typing import Any

import pytest

from components.exit_code import REQUESTS
from components.tenant import tenant_manifests
from stacks.load import parse
from stacks.resolve import Stack
from tests.stacks.test_refusals import ENCRYPTED, LAB, PROD, refused

BARE = {"cpu": "128", "memory": "1Ti"}
CLAIM = {"deviceClass": "gpu.nvidia.com", "count": 8}


def test_a_quota_counts_claimed_devices() -> None:
    """Eight claimed GPUs are eight GPUs."""

    def claiming(config: dict[str, Any]) -> None:
        config["flavors"]["h100x8"] = {**BARE, "claim": CLAIM}
        config["tenants"]["lab-a"]["quota"]["gpus"] = 8

    assert f"{LAB}.quota.gpus: 8 is less than the 9" in refused(claiming)


def requested(after_exit: str) -> Decimal:
    """Give the cores that the tenant's units request, one of which ends like that."""

    def change(config: dict[str, Any]) -> None:
        config["tenants"]["lab-a"]["quota"]["cpu"] = "1"
        config["tenants"]["lab-a"]["units"]["trainer"] |= {"afterExit": after_exit, "command": ["train"]}

    found = re.search(r"quota\.cpu: 1 is less than the ([0-9.]+)", refused(change))
    assert found
    return Decimal(found[1])


def test_a_quota_counts_what_shows_a_programs_end() -> None:
    """The API server counts the sidecar of a held unit; a quota without it would keep the unit from starting."""
    assert requested("hold") - requested("restart") == Decimal(REQUESTS["cpu"].removesuffix("m")) / 1000


def hard(flavor: dict[str, Any], quota: int | None) -> dict[str, str]:
    """Give the hard limits of a tenant with eight GPUs of *flavor* and one more in another unit."""
    changed = copy.deepcopy(PROD)
    changed["flavors"]["h100x8"] = {**BARE, **flavor}
    changed["tenants"]["lab-a"]["quota"] = {} if quota is None else {"gpus": quota}
    tenant = Stack(parse(changed, ENCRYPTED), "prod").tenants["lab-a"]
    limits: dict[str, str] = tenant_manifests(tenant)["quota"]["spec"]["hard"]
    return limits


@pytest.mark.parametrize(
    ("flavor", "quota", "granted"),
    [
        (
            {"gpus": 8, "resources": {"nvidia.com/gpumem": 8000}},
            None,
            {"requests.nvidia.com/gpu": "9", "requests.nvidia.com/gpumem": "8000", "requests.nvidia.com/gpucores": "0"},
        ),
        (
            {"gpus": 8, "resources": {"nvidia.com/gpumem": 8000}},
            12,
            {"requests.nvidia.com/gpu": "12", "requests.nvidia.com/gpumem": "8000"},
        ),
        (
            {"gpus": 7, "resource": "nvidia.com/mig-1g.10gb", "resources": {"nvidia.com/mig-2g.20gb": 1}},
            None,
            {"requests.nvidia.com/mig-1g.10gb": "7", "requests.nvidia.com/mig-2g.20gb": "1"},
        ),
        (
            {"claim": CLAIM},
            None,
            {"requests.nvidia.com/gpu": "1", "gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "8"},
        ),
        ({"claim": CLAIM}, 9, {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "9"}),
    ],
    ids=["share", "share-quota", "migs", "claim", "claim-quota"],
)
def test_what_flavors_need_is_granted_and_no_more(
    flavor: dict[str, Any], quota: int | None, granted: dict[str, str]
) -> None:
    """Each GPU resource and device class of the units has its hard limit; the rest stays closed."""
    limits = hard(flavor, quota)

    assert limits.items() >= granted.items()
    assert limits["count/resourceclaims.resource.k8s.io"] == "2"


def test_a_tenant_without_gpus_may_hold_no_claim() -> None:
    """What nobody declared is closed, by whatever way GPUs are handed out."""
    changed = copy.deepcopy(PROD)
    changed["tenants"] = {"lab-c": {}}
    limits = tenant_manifests(Stack(parse(changed, ENCRYPTED), "prod").tenants["lab-c"])["quota"]["spec"]["hard"]

    assert limits["count/resourceclaims.resource.k8s.io"] == "0"
