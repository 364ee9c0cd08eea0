"""What a stack file says of an issuer of identities, and a tenant of whom it admits."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from components.model import HOST_PATTERN, Cidr, Model, matching
from components.tunnel_server import Certificates

LONGEST_URL = 1024

MOST_RANGES = 32

URL_PATTERN = re.compile(r"https://[!-~]+")


def _url(value: str) -> str:
    """Refuse what two readers may read differently: users, fragments, odd hosts."""
    advice = "must be https://<host>[:<port>]/<path>, as the issuer's /.well-known/openid-configuration has it"
    try:
        parts = urlsplit(value) if URL_PATTERN.fullmatch(value) else urlsplit("")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError(advice) from None
    said = f"{host}:{port}" if port else host
    if not HOST_PATTERN.fullmatch(host) or parts.netloc != said or parts.fragment:
        raise ValueError(advice)
    return value


HttpsUrl = Annotated[str, Field(max_length=LONGEST_URL), AfterValidator(_url)]

PRINTABLE = re.compile(r"[!-~]{1,256}")

ClaimName = Annotated[
    str,
    matching(re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]{0,127}"), "must be the name of a claim such as email or groups"),
]
ClaimValue = Annotated[
    str, matching(re.compile(r"[ -~]{1,256}"), "must be 1 to 256 printable characters; a claim is compared as a whole")
]
ClaimValues = Annotated[tuple[ClaimValue, ...], Field(min_length=1, max_length=200)]

WebClaims = Annotated[dict[ClaimName, ClaimValues], Field(max_length=10)]
"""Claim to values: who has one of them, in one of the claims, is admitted."""


class OidcSpec(Model):
    """An OpenID Connect issuer, with the client that the proxy is there.

    Envoy asks no issuer what its addresses are, so they are said here.
    """

    issuer: HttpsUrl
    """As its ID tokens say it, to the letter."""
    client_id: Annotated[str, matching(PRINTABLE, "must be 1 to 256 printable characters without blanks")]
    authorization_endpoint: HttpsUrl
    token_endpoint: HttpsUrl
    jwks_uri: HttpsUrl
    end_session_endpoint: HttpsUrl | None = None
    """Where signing out goes on; None: it ends here alone, and the issuer may sign in again without a question."""
    scopes: tuple[Annotated[str, matching(PRINTABLE, "must be a scope such as email")], ...] = ("email",)
    """Asked for beside `openid`."""
    user_claim: ClaimName = "email"
    """What X-Forwarded-User and the access log call who signed in."""
    cidrs: Annotated[tuple[Cidr, ...], Field(min_length=1, max_length=MOST_RANGES)]
    """Where token endpoint and keys answer: the proxy may reach them at the ports of these two, and nothing else."""
    ca: Certificates
    """Who signed the certificates there: nobody else is believed to be the issuer."""

    @property
    def servers(self) -> tuple[tuple[str, int], ...]:
        """Give host and port of each server that the proxy itself asks, once."""
        return tuple(dict.fromkeys(map(server_of, (self.token_endpoint, self.jwks_uri))))


def server_of(url: str) -> tuple[str, int]:
    """Give host and port of an HttpsUrl."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 443
