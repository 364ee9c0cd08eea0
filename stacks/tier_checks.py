"""Problems of tunnel servers of one's own: what they need of the cluster, and limits that contradict each other."""

from collections.abc import Iterator, Mapping
from typing import Any

from components.egress import sealed
from components.entrance_config import LimitsSpec
from components.entry import ServiceSpec
from stacks.problems import Problem, Raw, valid
from stacks.schema import ClusterConfig

PATH = "cluster.apiServerCidrs"

WHERE = "`kubectl get endpointslices -l kubernetes.io/service-name=kubernetes` names its addresses"


def tier_problems(raw: Raw) -> Iterator[Problem]:
    """Yield what entrance and limits cannot be, and what keeps the gate from the API server."""
    platform: Any = raw.get("platform")
    ssh = platform.get("ssh") if isinstance(platform, Mapping) else None
    if not isinstance(ssh, Mapping) or "server" in ssh:
        return
    yield from _entrance(ssh)
    yield from _limits(valid(LimitsSpec, ssh.get("limits", {})))
    cluster = valid(ClusterConfig, raw.get("cluster", {}))
    yield from _api_server(cluster) if cluster else ()


def _entrance(ssh: Mapping[str, Any]) -> Iterator[Problem]:
    service = valid(ServiceSpec, ssh.get("service", {}))
    if service and service.node_port and service.type == "ClusterIP":
        yield Problem(
            "platform.ssh.service.nodePort",
            f"{service.node_port}: a ClusterIP has none; leave it out, or say type NodePort or LoadBalancer",
        )


def _limits(limits: LimitsSpec | None) -> Iterator[Problem]:
    """Refuse fewer connections of units than sessions of clients: each session takes one of its unit."""
    if limits is None:
        return
    said = {
        "perSource": (limits.tunnel.per_source, "perUnit", limits.per_unit),
        "total": (limits.tunnel.total, "total", limits.total),
    }
    for key, (units, other, clients) in said.items():
        if units is not None and units < clients:
            yield Problem(
                f"platform.ssh.limits.tunnel.{key}",
                f"{units} is less than limits.{other}, which is {clients}, and each session takes a connection of its "
                "unit; say more, or leave it out",
            )


def _api_server(cluster: ClusterConfig) -> Iterator[Problem]:
    """Yield what keeps the gate from the API server, which it asks which units there are."""
    if not cluster.api_server_cidrs:
        yield Problem(PATH, f"is missing: the gate asks the API server which units there are; {WHERE}")
    for index, cidr in enumerate(cluster.api_server_cidrs):
        if what := sealed(cidr):
            yield Problem(f"{PATH}.{index}", f"{cidr} lies in {what}, which no policy opens for the gate; {WHERE}")
