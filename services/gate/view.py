"""Which units there are, as the cluster said last: what a capability cannot say, because it outlives its unit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from watching.api_server import Kind
from watching.table import Table, table

from gate.claim import MAX_HOST, Claim, RefusedError

PROJECT = "gpu-runtime"
OWNER_LABEL = f"{PROJECT}/owner"
HOST_ANNOTATION = f"{PROJECT}/host"
SERVICE_PREFIX = "unit-"
"""As components/names.py has them; a test holds both to the same words."""

OURS = f"app.kubernetes.io/part-of={PROJECT}"

NAMESPACES = Kind("/api/v1/namespaces", f"{OURS},{OWNER_LABEL}")
SERVICES = Kind("/api/v1/services", f"{OURS},app.kubernetes.io/component=unit")


class Known(NamedTuple):
    """All that is kept of an object."""

    owner: str
    host: str = ""


def _read(thing: Mapping[str, Any]) -> Known | None:
    meta = table(thing.get("metadata"))
    owner = table(meta.get("labels")).get(OWNER_LABEL)
    host = str(table(meta.get("annotations")).get(HOST_ANNOTATION) or "")[: MAX_HOST + 1]
    return Known(str(owner), host) if owner else None


def follow(kind: Kind) -> Table[Known]:
    """Give an empty table of *kind*."""
    return Table(kind, _read)


@dataclass(frozen=True)
class View:
    """The units of a cluster."""

    namespaces: Table[Known] = field(default_factory=lambda: follow(NAMESPACES))
    services: Table[Known] = field(default_factory=lambda: follow(SERVICES))

    @property
    def complete(self) -> bool:
        """Say whether everything has been seen once."""
        return self.namespaces.known is not None and self.services.known is not None

    def demand(self, claim: Claim) -> None:
        """Refuse a *claim* that the cluster does not bear out.

        A unit is a Service of its name, in a namespace of its stack, that says its host; and no other there says it.

        Raises:
            RefusedError: there is no such unit, or nobody has said yet which there are.

        """
        if self.namespaces.known is None or self.services.known is None:
            raise RefusedError("this gate has not yet seen which units there are")
        home = self.namespaces.known.get(("", claim.namespace))
        if home is None or home.owner != claim.owner:
            raise RefusedError(f"there is no namespace {claim.namespace!r} of stack {claim.owner!r}")
        units = self.services.known
        key = (claim.namespace, SERVICE_PREFIX + claim.unit)
        unit = units.get(key)
        if unit is None or unit.owner != claim.owner:
            raise RefusedError(f"there is no unit {claim.unit!r} in {claim.namespace!r}")
        if unit.host != claim.host:
            raise RefusedError(f"unit {claim.unit!r} in {claim.namespace!r} has another host than {claim.host!r}")
        if any(other.host == claim.host and at[0] == key[0] and at != key for at, other in units.items()):
            raise RefusedError(f"another Service in {claim.namespace!r} says host {claim.host!r}, too")
