"""What a tenant is granted of GPUs: its quota where it has one, else what its units declare, running or not."""

from collections import Counter
from collections.abc import Sequence

from components.flavor import Flavor, is_share


def resources(flavors: Sequence[Flavor], quota: int | None) -> dict[str, int]:
    """Grant the GPU resources of *flavors*, one item for each unit.

    A quota counts GPUs. Memory and cores of shares are granted as declared: no number of GPUs says how much they are.
    """
    used: Counter[str] = Counter()
    for flavor in flavors:
        used.update(flavor.extended)
    return {name: count if quota is None or is_share(name) else quota for name, count in used.items()}


def devices(flavors: Sequence[Flavor], quota: int | None) -> dict[str, int]:
    """Grant devices of each device class that *flavors* claim from."""
    used: Counter[str] = Counter()
    for claim in (flavor.claim for flavor in flavors if flavor.claim):
        used[claim.device_class] += claim.count
    return {name: count if quota is None else quota for name, count in used.items()}


def claims(flavors: Sequence[Flavor]) -> int:
    """Count the ResourceClaims: one for each unit with GPUs.

    The scheduler makes one also for a GPU resource that a device class stands for, so those of device plugins count.
    """
    return sum(1 for flavor in flavors if flavor.devices)
