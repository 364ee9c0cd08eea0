"""Devices by dynamic resource allocation are held as GPUs are: by one container, one way, and no more than granted."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.gpus import claims_of, gpus_of
from policy.objects import Object

ID = "gpu-claims"
SEVERITY = Severity.HIGH
DESCRIPTION = (
    "Claimed devices belong to one main container of a pod that requests no GPUs beside them; none by admin access."
)
REMEDIATION = "Name the claim in one main container, and remove GPUs from its resources; remove adminAccess."
FRAMEWORKS = {Framework.GPU: "gpu-claim"}

SPECS = {"ResourceClaim": ("spec",), "ResourceClaimTemplate": ("spec", "spec")}
"""Kinds of resource.k8s.io that ask for devices -> where."""


def violations(thing: Object) -> Iterator[Finding]:
    """Yield claims of other containers, claims beside requests, further holders of GPUs, and requests as an admin."""
    if thing.group == "resource.k8s.io" and thing.kind in SPECS:
        yield from _admin(thing.root.at(*SPECS[thing.kind], "devices"))
    holders = [container for container in thing.containers if claims_of(container) or gpus_of(container)]
    for container in holders:
        for claim in claims_of(container):
            if container.role != "container":
                yield Finding(claim.path, f"{container.who}: claims devices; only a main container of a pod may")
            for name in gpus_of(container):
                yield Finding(claim.path, f"{container.who}: claims devices beside {name}; ask for GPUs one way")
    mains = [container for container in holders if container.role == "container"]
    if len(mains) > 1 and any(claims_of(container) for container in mains):
        path = mains[1].field["resources"].path
        yield Finding(path, f"{mains[1].who}: holds GPUs beside {mains[0].who}; one main container of a pod may")


def _admin(devices: Field) -> Iterator[Finding]:
    """Yield requests that see devices of others; before v1 they had no `exactly`."""
    for request in devices["requests"].each():
        for access in (request["exactly"]["adminAccess"], request["adminAccess"]):
            if access.value not in (None, False):
                yield access.refuse("claim", "remove it: it opens devices that others hold")
