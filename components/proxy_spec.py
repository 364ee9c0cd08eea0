"""What a stack file says of the proxy: `gpu-runtime:platform.browser`."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from components.entry import Drain, ServiceSpec
from components.model import Host, Model, Port, Whole
from components.oidc_spec import OidcSpec

ONE_BROWSER = 6
"""Connections that a browser opens to one host by HTTP/1.1: fewer, and a page lacks parts."""

STREAMS = 100
"""Requests that a browser may have open at once in one connection of HTTP/2: fewer, and a page lacks parts."""

OF_TENANT, MOST_OF_TENANT = 512, 1000
"""Requests open of one tenant, by default and at most: 1000 that nobody reads take half of a pod (ADR 0040)."""

HOST_LENGTH = 253 - 64
"""So that one label more still is a host name."""


def _domain(value: str) -> str:
    """Refuse an address: nothing is below one. Browsers read whatever ends in a number as an address."""
    if value.rpartition(".")[2].isdigit():
        advice = "must be a host name that others can be below, such as files.example.com"
        raise ValueError(f"{advice}; {value} is an address")
    return value


class ProxyLimitsSpec(Model):
    """What one pod of the proxy takes; there are two."""

    per_source: Annotated[Whole, Field(ge=1, le=100_000)] = 100
    """Requests a second from one IPv4 address, or one /64 of IPv6, and three times that at once."""
    per_origin: Annotated[Whole, Field(ge=1, le=100_000)] = 1000
    """Requests a second to one storage, port or index, of all who may come in."""
    connections: Annotated[Whole, Field(ge=1, le=20_000)] = 4096
    """Open at once, of all clients."""
    connections_per_source: Annotated[Whole, Field(ge=ONE_BROWSER, le=20_000)] | None = None
    """Open at once, of one source, as that of requests is one. Default: an eighth of all.

    That is 512, five each of a hundred people behind one address. A browser has one open for each host that it shows,
    more where it speaks HTTP/1.1, and one for each WebSocket.
    """
    new_connections_per_source: Annotated[Whole, Field(ge=2, le=100_000)] = 100
    """A second, of one source, and three times that at once: as many as requests, for clients that keep none open."""
    open_per_tenant: Annotated[Whole, Field(ge=STREAMS, le=MOST_OF_TENANT)] = OF_TENANT
    """Requests and WebSockets open at once, to all storages, ports and the index of one tenant.

    One that its client does not read takes up to 400 KiB of a pod's memory.
    """

    @property
    def of_source(self) -> int:
        """Give how many connections one source may have open; a stack file where that is all of them is refused."""
        return self.connections_per_source or max(ONE_BROWSER, self.connections // 8)

    @property
    def requests_of_source(self) -> int:
        """Give how many requests one source may have open: by HTTP/2 more than connections."""
        return max(STREAMS, 2 * self.of_source)


class DerivedTls(Model):
    """A certificate of the stack's own authority, which clients must be told to trust."""

    kind: Literal["derived"]


class SecretTls(Model):
    """A wildcard certificate that somebody else keeps fresh."""

    kind: Literal["secret"]
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """A Secret of type kubernetes.io/tls in the namespace gpu-runtime, for <host> and *.<host>."""


class IssuerRef(Model):
    """An issuer of cert-manager."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    kind: Literal["ClusterIssuer", "Issuer"] = "ClusterIssuer"


class CertManagerTls(Model):
    """A wildcard certificate that cert-manager gets and keeps fresh; a wildcard needs an issuer that proves by DNS."""

    kind: Literal["certManager"]
    issuer: IssuerRef


Tls = Annotated[DerivedTls | SecretTls | CertManagerTls, Field(discriminator="kind")]


class ProxySpec(Model):
    """The proxy in front of browsers and web ports."""

    host: Annotated[Host, Field(max_length=HOST_LENGTH), AfterValidator(_domain)]
    """The main host; every storage and port has a host of its own, one label below it."""
    port: Port = 443
    """Where clients connect, as addresses show it."""
    service: ServiceSpec = ServiceSpec()
    tls: Tls = DerivedTls(kind="derived")
    ports: tuple[Port, ...] = (6006, 8888)
    """What units of admitted stacks may show; those of the stack's own units are known."""
    limits: ProxyLimitsSpec = ProxyLimitsSpec()
    oidc: OidcSpec | None = None
    """Who signs people in beside passwords; None: nobody."""
    drain: Drain = "15m"
    """How long downloads may go on through a pod that is being replaced."""


def url(host: str, port: int) -> str:
    """Give the address of a host of the proxy."""
    return f"https://{host}" + ("" if port == 443 else f":{port}")  # noqa: PLR2004 - that of HTTPS
