"""Who may look at what a tenant has behind the proxy: one Secret, in a namespace that holds nothing else.

It holds hashes alone. The passwords themselves are derived from the stack secret, and kept nowhere.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

import pulumi
from pydantic import Field

from components import names
from components.kube import metadata, register
from components.model import Manifest, matching

COMPONENT = "access"

WebUser = Annotated[
    str,
    matching(
        re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}"),
        "must be 1 to 64 lower-case letters, digits and '.', '_', '@', '-', the first a letter or digit",
    ),
]

MOST_USERS = 100
"""Of one tenant: each of its origins names them all to Envoy, and `routes` reads no more."""

HEAVIEST, HEAVIEST_STACK = 8 * 1024 * 1024, 16 * 1024 * 1024
"""Bytes of what one tenant, and all of a stack, may say of their people. Both files of `routes` have to fit its volume
twice each, with those of other stacks beside these."""

LINE, AROUND = 35, 32
"""Bytes beside the user in a line of htpasswd; those around a value of a claim, which is said twice."""

WebUsers = Annotated[tuple[WebUser, ...], Field(max_length=MOST_USERS)]


@dataclass(frozen=True)
class Access:
    """The users of one tenant."""

    tenant: str
    namespace: str
    owner: str
    users: tuple[str, ...]
    epoch: int = 0
    """Another number is another password for each of them."""
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Whom the tenant admits of those whom the platform's issuer signs in."""

    @property
    def labels(self) -> names.Labels:
        """Give the labels of the Secret: the proxy believes it where they are those of the tenant's namespace."""
        return names.labels(owner=self.owner, component=COMPONENT, instance=self.namespace, tenant=self.tenant)


@dataclass(frozen=True)
class AccessSecrets:
    """The lines of htpasswd; a secret to the engine, though no password can be had from them."""

    htpasswd: pulumi.Input[str] = field(repr=False)


def htpasswd(passwords: Iterable[tuple[str, str]]) -> str:
    """Give a line for each user and password, in the one form that Envoy takes.

    A single round of SHA-1 is enough for a password of 128 bits, and for no other.
    """
    return "".join(f"{user}:{{SHA}}{_digest(password)}\n" for user, password in passwords)


def _digest(password: str) -> str:
    return base64.b64encode(hashlib.sha1(password.encode(), usedforsecurity=False).digest()).decode()


def weight(users: Iterable[str], claims: Mapping[str, Iterable[str]], hosts: int) -> int:
    """Give about the bytes that `routes` writes of who may come in: users at each of *hosts*, claims once."""
    lines = sum(len(user) + LINE for user in users)
    return hosts * lines + sum(2 * (len(value) + AROUND) for values in claims.values() for value in values)


def access_manifests(access: Access, secrets: AccessSecrets) -> dict[str, Manifest]:
    """Build the Secret of a tenant."""
    meta = metadata(names.access(access.namespace), names.ACCESS_NAMESPACE, access.labels)
    claims = {"claims": json.dumps(access.claims, sort_keys=True)} if access.claims else {}
    data = {"htpasswd": secrets.htpasswd, **claims}
    return {"access": {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "stringData": data}}


class TenantAccess(pulumi.ComponentResource):
    """The passwords of a tenant's people."""

    def __init__(self, access: Access, secrets: AccessSecrets, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs = {"namespace": access.namespace}
        super().__init__(names.component_type("TenantAccess"), access.tenant, inputs, opts)
        register(access.tenant, access_manifests(access, secrets), parent=self)
        self.register_outputs({"users": list(access.users)})
