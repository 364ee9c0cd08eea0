"""What each tenant has behind the proxy, and who may look at it, as the cluster said last."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from watching.table import Key, Table

from routes.claims import Claims
from routes.things import (
    ACCESS_NAMESPACE,
    BROWSER_PORT,
    NAMESPACES,
    SECRETS,
    SERVICES,
    SLICES,
    Address,
    Browser,
    Holder,
    Slice,
    Unit,
    Users,
    read_namespace,
    read_service,
    read_slice,
    read_users,
)

Endpoints = Mapping[tuple[Key, str], tuple[Address, ...]]
"""Service and port to addresses."""


class Storage(NamedTuple):
    """A storage that can be looked at."""

    name: str
    size: str
    upload: int | None
    endpoints: tuple[Address, ...]


class Port(NamedTuple):
    """A port of a unit that can be looked at."""

    unit: str
    name: str
    endpoints: tuple[Address, ...]


class Tenant(NamedTuple):
    """A tenant who has passwords, or admits whom an issuer signs in."""

    namespace: str
    name: str
    htpasswd: str
    storages: tuple[Storage, ...] = ()
    ports: tuple[Port, ...] = ()
    mounts: tuple[tuple[str, str, str], ...] = ()
    """Storage, unit that can be reached by SSH, and path there."""
    claims: Claims = ()
    """Whom the tenant admits of those whom an issuer signed in."""
    owner: str = ""
    """The stack whose tenant it is."""


Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


@dataclass(frozen=True)
class View:
    """The parts of a cluster that the proxy leads to; where no pod can be, nobody is asked."""

    pods: Networks
    """Where the cluster's pods have their addresses."""
    namespaces: Table[Holder] = field(default_factory=lambda: Table(NAMESPACES, read_namespace))
    services: Table[Browser | Unit] = field(default_factory=lambda: Table(SERVICES, read_service))
    slices: Table[Slice] = field(default_factory=lambda: Table(SLICES, read_slice))
    secrets: Table[Users] = field(default_factory=lambda: Table(SECRETS, read_users))

    @property
    def tables(self) -> tuple[Table[Holder], Table[Browser | Unit], Table[Slice], Table[Users]]:
        """Give all of them."""
        return self.namespaces, self.services, self.slices, self.secrets

    @property
    def state(self) -> tuple[object, ...] | None:
        """Give what it is made of, the same objects while nothing changes; None until all has been seen once."""
        known = tuple(table.known for table in self.tables)
        return None if any(one is None for one in known) else known

    def tenants(self, owners: frozenset[str]) -> list[Tenant]:
        """Give the tenants of *owners* that have passwords, in the order of their namespaces.

        A Service or Secret counts where it says the same owner and tenant as the namespace that it is in, or names.
        """
        users, homes = self.secrets.known or {}, self._homes(owners)
        slices = {key: one for key, one in (self.slices.known or {}).items() if key[0] in homes}
        endpoints, twice = _endpoints(slices, self.pods), _claimed_twice(slices)
        of_namespace: dict[str, list[tuple[Key, Browser | Unit]]] = {}
        for key, service in sorted((self.services.known or {}).items()):
            of_namespace.setdefault(key[0], []).append((key, service))
        made = []
        for namespace, holder in sorted(homes.items()):
            access = users.get((ACCESS_NAMESPACE, f"access-{namespace}"))
            if access is not None and access.holder == holder:
                own = [(key, one) for key, one in of_namespace.get(namespace, ()) if one.holder == holder]
                made.append(_tenant(namespace, access, own, endpoints, twice))
        return made

    def _homes(self, owners: frozenset[str]) -> dict[str, Holder]:
        """Give the namespaces of the tenants of *owners*."""
        known = (self.namespaces.known or {}).items()
        return {namespace: holder for (_, namespace), holder in known if holder.owner in owners}


def _tenant(
    namespace: str, access: Users, own: list[tuple[Key, Browser | Unit]], endpoints: Endpoints, twice: frozenset[str]
) -> Tenant:
    def at(key: Key, port: str) -> tuple[Address, ...]:
        return endpoints.get((key, port), ())

    def alone(key: Key, port: str) -> tuple[Address, ...]:
        return tuple(address for address in at(key, port) if address.ip not in twice)

    browsers = ((key, one) for key, one in own if isinstance(one, Browser))
    units = [(key, one) for key, one in own if isinstance(one, Unit)]
    return Tenant(
        namespace,
        access.holder.tenant,
        access.htpasswd,
        tuple(Storage(one.name, one.size, one.upload, at(key, BROWSER_PORT)) for key, one in browsers),
        tuple(Port(one.name, port, alone(key, port)) for key, one in units for port in dict.fromkeys(one.web)),
        tuple((storage, one.name, path) for _, one in units for storage, path in one.mounts),
        access.claims,
        access.holder.owner,
    )


def _endpoints(slices: Mapping[Key, Slice], pods: Networks) -> Endpoints:
    found: dict[tuple[Key, str], set[Address]] = {}
    for (namespace, _), one in slices.items():
        sound = {ip for ip in one.known if _is_within(ip, pods)}
        for port, addresses in one.ports:
            here = found.setdefault(((namespace, one.service), port), set())
            here.update(address for address in addresses if address.ip in sound)
    return {where: tuple(sorted(addresses)) for where, addresses in found.items()}


def _is_within(ip: str, pods: Networks) -> bool:
    """Say whether *ip* is in one of *pods*; one with a zone is a node's own, and nothing that Envoy takes."""
    return "%" not in ip and any(ipaddress.ip_address(ip) in network for network in pods)


def _claimed_twice(slices: Mapping[Key, Slice]) -> frozenset[str]:
    """Give the addresses that slices of two namespaces have: a port leads to any path there, files only to their own.

    Whose pod it is only Kubernetes' own controller says surely, and who may write slices may write the same words.
    """
    homes: dict[str, str] = {}
    for (namespace, _), one in slices.items():
        for ip in one.known:
            homes[ip] = namespace if homes.get(ip, namespace) == namespace else ""
    return frozenset(ip for ip, namespace in homes.items() if not namespace)
