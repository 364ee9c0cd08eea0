"""Make the storages and units of a stack, each after what it needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pulumi

from components.gpu_storage import GPUStorage
from components.gpu_unit import GPUUnit, UnitSecrets
from components.refill import Refill
from components.storage_spec import Storage
from stacks.order import Key, in_order
from stacks.resolve import Stack

After = Callable[..., pulumi.ResourceOptions]
"""Gives the options of what a tenant has, after the resources that are named."""


@dataclass(frozen=True)
class Given:
    """What units get from elsewhere, by alias."""

    secrets: Mapping[str, UnitSecrets]
    logins: Mapping[str, Mapping[str, pulumi.Resource]]
    told: pulumi.ResourceHook | None


def make(stack: Stack, after: After, refill: Refill, given: Given) -> tuple[list[GPUUnit], list[GPUStorage]]:
    """Make all storages and units of *stack*; *after* is called with a tenant's name and what must be there before."""
    made: dict[Key, GPUUnit | GPUStorage] = {}
    units, storages = list[GPUUnit](), list[GPUStorage]()
    for key, part, needed in in_order(stack.units, stack.storages):
        opts = after(part.tenant, *(made[one] for one in needed))
        if isinstance(part, Storage):
            made[key] = storage = GPUStorage(part, opts, refill)
            storages.append(storage)
        else:
            made[key] = unit = GPUUnit(part, given.secrets[part.alias], opts, given.told, given.logins[part.alias])
            units.append(unit)
    return units, storages
