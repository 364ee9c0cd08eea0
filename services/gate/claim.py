"""Who a tunnel client says it is: five strings in its frp metadata, of which one, the capability, proves the others."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS label as Kubernetes has it: lower case, so that no second spelling of a host exists."""

MAX_HOST = 253
"""The longest DNS name."""

MIN_HOST_LABELS = 3
"""``<unit>.<namespace>.<suffix>``: a suffix has one label at least."""


class RefusedError(Exception):
    """The request is not allowed; its message is told to the client and logged, so it never carries a secret."""


@dataclass(frozen=True)
class Claim:
    """A unit (``namespace``, ``unit``) of the stack ``owner`` that asks for ``host``."""

    owner: str
    namespace: str
    unit: str
    host: str


def claim_of(metas: object, owners: frozenset[str]) -> tuple[Claim, str]:
    """Read claim and capability out of frp's client metadata; what they say is not proved yet.

    Raises:
        RefusedError: metadata is missing, odd or too much, the owner is not admitted, or the host is not of the
            namespace.

    """
    said = _strings(metas)
    capability = said.pop("capability")
    claim = Claim(**said)
    if claim.owner not in owners:
        raise RefusedError(f"stack {_short(claim.owner)} is not admitted by this gate")
    for what, value in (("namespace", claim.namespace), ("unit", claim.unit)):
        if not LABEL.fullmatch(value):
            raise RefusedError(f"{what} {_short(value)} is not a DNS label")
    if not _is_host_of(claim.host, claim.namespace):
        raise RefusedError(f"host {_short(claim.host)} is not <unit>.{claim.namespace}.<suffix> in lower case")
    return claim, capability


def _strings(metas: object) -> dict[str, str]:
    if not isinstance(metas, Mapping) or not metas:
        raise RefusedError("no metadata: owner, namespace, unit, host and capability are required")
    wanted = {"owner", "namespace", "unit", "host", "capability"}
    if set(metas) != wanted or not all(isinstance(value, str) for value in metas.values()):
        raise RefusedError("metadata must be exactly owner, namespace, unit, host and capability, each a string")
    return dict(metas)


def _is_host_of(host: str, namespace: str) -> bool:
    labels = host.split(".")
    named = len(host) <= MAX_HOST and all(LABEL.fullmatch(label) for label in labels)
    return named and len(labels) >= MIN_HOST_LABELS and labels[1] == namespace


def _short(value: str) -> str:
    return repr(value[:MAX_HOST])
