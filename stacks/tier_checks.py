"""Problems of tunnel servers of one's own: what they need of the cluster."""

from collections.abc import Iterator, Mapping
from typing import Any

from components.egress import sealed
from components.entry import ServiceSpec
from stacks.problems import Problem, Raw, valid
from stacks.schema import ClusterConfig

PATH = "cluster.apiServerCidrs"

WHERE = "`kubectl get endpointslices -l kubernetes.io/service-name=kubernetes` names its addresses"


def tier_problems(raw: Raw) -> Iterator[Problem]:
    """Yield what an entrance cannot be, and what keeps the gate from the API server."""
    platform: Any = raw.get("platform")
    ssh = platform.get("ssh") if isinstance(platform, Mapping) else None
    if not isinstance(ssh, Mapping) or "server" in ssh:
        return
    yield from _entrance(ssh)
    cluster = valid(ClusterConfig, raw.get("cluster", {}))
    yield from _api_server(cluster) if cluster else ()


def _entrance(ssh: Mapping[str, Any]) -> Iterator[Problem]:
    service = valid(ServiceSpec, ssh.get("service", {}))
    if service and service.node_port and service.type == "ClusterIP":
        yield Problem(
            "platform.ssh.service.nodePort",
            f"{service.node_port}: a ClusterIP has none; leave it out, or say type NodePort or LoadBalancer",
        )


def _api_server(cluster: ClusterConfig) -> Iterator[Problem]:
    """Yield what keeps the gate from the API server, which it asks which units there are."""
    if not cluster.api_server_cidrs:
        yield Problem(PATH, f"is missing: the gate asks the API server which units there are; {WHERE}")
    for index, cidr in enumerate(cluster.api_server_cidrs):
        if what := sealed(cidr):
            yield Problem(f"{PATH}.{index}", f"{cidr} lies in {what}, which no policy opens for the gate; {WHERE}")
