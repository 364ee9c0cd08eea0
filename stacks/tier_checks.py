"""Problems of tunnel servers of one's own: what they need of the cluster."""

from collections.abc import Iterator, Mapping
from typing import Any

from components.egress import sealed
from stacks.problems import Problem, Raw, valid
from stacks.schema import ClusterConfig

PATH = "cluster.apiServerCidrs"

WHERE = "`kubectl get endpointslices -l kubernetes.io/service-name=kubernetes` names its addresses"


def tier_problems(raw: Raw) -> Iterator[Problem]:
    """Yield what keeps the gate from the API server, which it asks which units there are."""
    platform: Any = raw.get("platform")
    ssh = platform.get("ssh") if isinstance(platform, Mapping) else None
    cluster = valid(ClusterConfig, raw.get("cluster", {}))
    if not isinstance(ssh, Mapping) or "server" in ssh or cluster is None:
        return
    if not cluster.api_server_cidrs:
        yield Problem(PATH, f"is missing: the gate asks the API server which units there are; {WHERE}")
    for index, cidr in enumerate(cluster.api_server_cidrs):
        if what := sealed(cidr):
            yield Problem(f"{PATH}.{index}", f"{cidr} lies in {what}, which no policy opens for the gate; {WHERE}")
