"""A tunnel server elsewhere: an frps that somebody else runs, in place of the tier of this stack."""

import re
from typing import Annotated

from cryptography import x509
from pydantic import AfterValidator, Field, StrictBool

from components import names
from components.flows import Tunnel, external_tunnel
from components.model import HOST_PATTERN, Host, Model, Port, plain_address

PRIVATE_SUFFIXES = (
    ".local",
    ".internal",
    ".svc",
    ".lan",
    ".corp",
    ".intranet",
    ".private",
    ".home.arpa",
    ".localdomain",
)
"""Ends of names that only a private DNS knows (RFC 6762, RFC 8375, ICANN's `.internal`, and habit)."""


ADDRESS_LIKE = re.compile(r"[0-9.]+|.*:.*")
"""What nobody means as a name."""


def _reachable(value: str) -> str:
    said = value.lower().removesuffix(".")
    if ADDRESS_LIKE.fullmatch(said):
        return plain_address(said)
    if "." not in said or said.endswith(PRIVATE_SUFFIXES):
        msg = "is a private name: a policy opens addresses and not names, so give the server's IP address"
        raise ValueError(msg)
    if not HOST_PATTERN.fullmatch(said):
        msg = "must be an IP address, or a public host name such as frps.example.com"
        raise ValueError(msg)
    return said


def _certificates(value: str) -> str:
    try:
        x509.load_pem_x509_certificates(value.encode())
    except ValueError:
        msg = "must be the certificate of the server's authority in PEM (-----BEGIN CERTIFICATE-----...)"
        raise ValueError(msg) from None
    return value


Certificates = Annotated[str, AfterValidator(_certificates)]
"""One or more certificates, in PEM."""


class ServerSpec(Model):
    """Where it is, and how units know it for what it is."""

    address: Annotated[str, Field(max_length=253), AfterValidator(_reachable)]
    """An IP address, of either family; or a public name, which units reach as a part of the internet."""
    port: Port = names.TUNNEL_PORT
    name: Host
    """What its certificate says."""
    ca: Certificates
    """Certificate of the authority that signed it, in PEM."""
    gate: StrictBool = False
    """True: it asks a gate of ours, whose operator gave `platformKeys`; else whoever holds its token takes any host."""
    tcp_mux: StrictBool = True
    """Its `transport.tcpMux`, on which both sides must agree; true is frp's default."""

    @property
    def is_address(self) -> bool:
        """Say whether it is named by its address, so that a policy can open exactly that."""
        return ADDRESS_LIKE.fullmatch(self.address) is not None

    @property
    def flow(self) -> Tunnel | None:
        """Give the end of the units' flow; None for a public name, which the row of the internet covers."""
        return external_tunnel(self.address, self.port) if self.is_address else None
