"""Whose hosts have room in the volume of the two files: where it is too small for all, some go, and never everybody."""

from collections.abc import Sequence
from typing import NamedTuple

from routes.envoy import HEAVIEST, size, weight
from routes.hosts import Site
from routes.view import Tenant

MOST = 28 * 1024 * 1024
"""Bytes of both files together: a volume of 64 MiB has them twice while one is replaced, and so has the memory, which
the volume is a part of."""


class Left(NamedTuple):
    """A tenant of which nothing is served, and why, in the words of the log."""

    event: str
    owner: str
    namespace: str
    bytes: int
    most: int


def fitting(tenants: Sequence[Tenant], site: Site, most: int = MOST) -> tuple[list[Tenant], list[Left]]:
    """Give the tenants that have room, and those that have not.

    Each may be as heavy as a stack file may say it. Where all are more than *most*, the heaviest tenant of the heaviest
    stack goes first, until the rest fits: who takes little stays, and the same tenants always come to the same.
    """
    left = [Left("too-heavy", one.owner, one.namespace, weight(one), HEAVIEST) for one in tenants if _is_heavy(one)]
    sizes = {one.namespace: size(one, site) for one in tenants if not _is_heavy(one)}
    owners = {one.namespace: one.owner for one in tenants}
    while sum(sizes.values()) > most:
        heaviest = _heaviest(sizes, owners)
        left.append(Left("no-room", owners[heaviest], heaviest, sizes.pop(heaviest), most))
    return [one for one in tenants if one.namespace in sizes], left


def _is_heavy(tenant: Tenant) -> bool:
    return weight(tenant) > HEAVIEST


def _heaviest(sizes: dict[str, int], owners: dict[str, str]) -> str:
    """Give the namespace of the heaviest tenant of the owner whose tenants are heaviest; of equals the last by name."""
    of_owner: dict[str, int] = {}
    for namespace, bytes_ in sizes.items():
        of_owner[owners[namespace]] = of_owner.get(owners[namespace], 0) + bytes_
    return max(sizes, key=lambda name: (of_owner[owners[name]], owners[name], sizes[name], name))
