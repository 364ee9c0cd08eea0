"""Whether the tunnel tier lets anybody in: what stands behind its Services, as the cluster's EndpointSlices say."""

from collections.abc import Iterable

from status.objects import Object

SERVICE_LABEL = "kubernetes.io/service-name"

GATE, ENTRANCE = "gate", "ssh"
"""The Services that a login passes: clients reach the second, and each server asks the first."""

SHUT = {
    ENTRANCE: ("NoTunnelServer", "no tunnel server is ready: nobody new gets in"),
    GATE: ("NoGate", "no gate answers: new logins are refused, running sessions go on"),
}
"""What it means that nothing ready stands behind a Service: a reason, and plain words."""


def shut(slices: Iterable[Object]) -> tuple[str, str] | None:
    """Say why no new login works, whatever a unit says of its own links: a reason and a sentence; None where it may."""
    open_ = {one["metadata"]["labels"][SERVICE_LABEL] for one in slices if any(map(_ready, one.get("endpoints") or ()))}
    return next((why for service, why in SHUT.items() if service not in open_), None)


def _ready(endpoint: Object) -> bool:
    """Say whether an endpoint takes connections; the API has it that nothing said means yes."""
    return (endpoint.get("conditions") or {}).get("ready") is not False
