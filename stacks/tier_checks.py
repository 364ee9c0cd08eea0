"""Problems of tunnel servers of one's own: what they need of the cluster, and limits that contradict each other."""

from collections.abc import Iterator, Mapping
from typing import Any

from components.egress import sealed
from components.entrance_config import STARTUPS, LimitsSpec
from components.entry import ServiceSpec
from components.tunnel import FrpSpec
from stacks.problems import Problem, Raw, valid
from stacks.schema import ClusterConfig

PATH = "cluster.apiServerCidrs"
LIMITS = "platform.ssh.limits"

WHERE = "`kubectl get endpointslices -l kubernetes.io/service-name=kubernetes` names its addresses"


def tier_problems(raw: Raw) -> Iterator[Problem]:
    """Yield what entrance and limits cannot be, and what keeps the gate from the API server."""
    platform: Any = raw.get("platform")
    ssh = platform.get("ssh") if isinstance(platform, Mapping) else None
    if not isinstance(ssh, Mapping) or "server" in ssh:
        return
    yield from _entrance(ssh)
    yield from _limits(
        valid(LimitsSpec, ssh.get("limits", {})), ssh.get("replicas", FrpSpec.model_fields["replicas"].default)
    )
    cluster = valid(ClusterConfig, raw.get("cluster", {}))
    yield from _api_server(cluster) if cluster else ()


def _entrance(ssh: Mapping[str, Any]) -> Iterator[Problem]:
    service = valid(ServiceSpec, ssh.get("service", {}))
    if service and service.node_port and service.type == "ClusterIP":
        yield Problem(
            "platform.ssh.service.nodePort",
            f"{service.node_port}: a ClusterIP has none; leave it out, or say type NodePort or LoadBalancer",
        )


def _limits(limits: LimitsSpec | None, servers: object) -> Iterator[Problem]:
    if limits is not None:
        yield from _of_one_source(limits, servers)
        yield from _of_units(limits)


def _of_one_source(limits: LimitsSpec, servers: object) -> Iterator[Problem]:
    """Refuse that one source may shut everybody else out of a unit, at a server or at all *servers* together."""
    path, one = f"{LIMITS}.perSourceOfUnit", limits.of_pair
    if one >= limits.per_unit:
        yield Problem(
            path,
            f"{one} is not below limits.perUnit, which is {limits.per_unit}: one source could shut everybody else out "
            "of a unit; say less, or a higher perUnit",
        )
    elif type(servers) is int and servers * one >= STARTUPS:
        yield Problem(
            path,
            f"{one} at each of {servers} servers is {servers * one} for one source, and from {STARTUPS} on that have "
            f"not logged in a unit's sshd turns logins away; say {(STARTUPS - 1) // servers} at most",
        )


def _of_units(limits: LimitsSpec) -> Iterator[Problem]:
    """Refuse fewer connections of units than sessions of clients: each session takes one of its unit."""
    said = {
        "perSource": (limits.tunnel.per_source, "perUnit", limits.per_unit),
        "total": (limits.tunnel.total, "total", limits.total),
        "newPerSource": (limits.tunnel.new_per_source, "newPerSource", limits.new_per_source),
    }
    for key, (units, other, clients) in said.items():
        # at the same pace one source could keep all others out of a unit
        least = clients + (key == "newPerSource")
        if units is not None and units < least:
            yield Problem(
                f"{LIMITS}.tunnel.{key}",
                f"{units} is too few beside limits.{other}, which is {clients}, since each session takes a connection "
                f"of its unit; say {least} or more, or leave it out",
            )


def _api_server(cluster: ClusterConfig) -> Iterator[Problem]:
    """Yield what keeps the gate from the API server, which it asks which units there are."""
    if not cluster.api_server_cidrs:
        yield Problem(PATH, f"is missing: the gate asks the API server which units there are; {WHERE}")
    for index, cidr in enumerate(cluster.api_server_cidrs):
        if what := sealed(cidr):
            yield Problem(f"{PATH}.{index}", f"{cidr} lies in {what}, which no policy opens for the gate; {WHERE}")
