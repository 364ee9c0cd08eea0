"""The law as stated is consistent, and who wears it obeys it."""

from ipaddress import ip_network
from itertools import combinations, pairwise

import pytest

from policy import baseline
from policy.quantity import quantity
from tests.policy.cases import obeys, pod, walls

GI = 2**30


def test_who_wears_the_baseline_obeys_the_law() -> None:
    """Components spread the baseline and add nothing: that must be enough."""
    labels = {**baseline.NAMESPACE_LABELS, baseline.TENANT_LABEL: "lab-a"}
    metadata = {"name": "lab-a", "labels": labels, "annotations": {baseline.BLOCKED_ANNOTATION: ""}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    assert obeys(namespace, walls(), pod())


def test_gpu_unit_that_wears_the_baseline_obeys_the_law() -> None:
    """The volume and the mount of shared memory fit each other and the check."""
    amounts = {"cpu": "8", "memory": str(64 * GI), "nvidia.com/gpu": "1"}
    container = pod()["spec"]["containers"][0] | {
        "resources": {"requests": amounts, "limits": amounts},
        "volumeMounts": [baseline.shm_mount()],
        "securityContext": baseline.container_security(read_only_root=False),
    }

    assert obeys(walls(), pod(containers=[container], volumes=[baseline.shm_volume(64 * GI)]))


@pytest.mark.parametrize(
    ("memory", "size"),
    [(16 * GI, "8Gi"), (3 * GI, "1536Mi"), (8_000_000_000, "3906250Ki"), (1, "1Ki"), (4 * 2**50, "2048Ti")],
)
def test_shared_memory_is_half_of_memory(memory: int, size: str) -> None:
    """The size is as the API writes it back, so that no second update differs."""
    volume = baseline.shm_volume(memory)

    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": size}
    assert (quantity(size) or 0) <= max(memory // 2, 1024)


@pytest.mark.parametrize(("table", "version"), [(baseline.BLOCKED_V4, 4), (baseline.BLOCKED_V6, 6)])
def test_blocked_ranges_are_fit_for_a_policy(table: dict[str, str], version: int) -> None:
    """Exact, of one family, sorted and without overlap: what an `except` list takes as it is."""
    ranges = [ip_network(cidr) for cidr in table]

    assert {item.version for item in ranges} == {version}
    assert [str(item) for item in ranges] == list(table)
    assert all(str(one.network_address) != str(other.network_address) for one, other in pairwise(ranges))
    assert sorted(ranges, key=lambda item: int(item.network_address)) == ranges
    assert not [pair for pair in combinations(ranges, 2) if pair[0].overlaps(pair[1])]
    assert all(table.values())


def test_metadata_services_are_blocked() -> None:
    """The addresses that hand out a node's credentials, cloud by cloud."""
    blocked = [ip_network(cidr) for cidr in (*baseline.BLOCKED_V4, *baseline.BLOCKED_V6)]
    inside = [name for name in baseline.METADATA if any(ip_network(name).overlaps(cidr) for cidr in blocked)]

    assert inside == list(baseline.METADATA)


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/mig-1g.10gb", True),
        ("nvidia.com/gpumem-percentage", True),
        ("requests.amd.com/gpu", True),
        ("gpu.intel.com/i915", True),
        ("cpu", False),
        ("nvidia.com", False),
        ("example.com/fpga", False),
        ("hugepages-2Mi", False),
    ],
)
def test_gpu_resources(name: str, *, verdict: bool) -> None:
    """Accelerators are known by their domain, so that no product is forgotten."""
    assert baseline.is_gpu_resource(name) is verdict
    assert all(baseline.is_gpu_resource(known) for known in baseline.GPU_RESOURCES)
