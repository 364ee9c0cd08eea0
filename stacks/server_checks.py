"""Problems of a tunnel server elsewhere that only several values show."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from components import ranges
from components.egress import EgressSpec, PortRule, sealed
from components.names import PROJECT
from components.tunnel import FrpSpec
from components.tunnel_server import ServerSpec
from stacks.egress_checks import of_cluster
from stacks.problems import Problem, Raw, valid
from stacks.schema import ClusterConfig, PlatformKeys

PATH = "platform.ssh.server"

OF_OUR_OWN = ("replicas", "limits", "drain", "service")
"""What is said of tunnel servers that the stack makes itself."""

TOKEN = re.compile(r"[\x21-\x7e]{16,512}")
"""What a unit's tunnel client takes (services/tunnel): frp trims blanks, and short ones are guessed."""


def server_of(raw: Raw) -> ServerSpec | None:
    """Give the server elsewhere that a stack file names; None where there is none, or where it is itself refused."""
    ssh = valid(FrpSpec, _ssh(raw))
    return ssh.server if ssh else None


def server_problems(raw: Raw) -> Iterator[Problem]:
    """Yield what is wrong with a server elsewhere, its token and keys, the way to it, and what is said in vain."""
    yield from _in_vain(_ssh(raw))
    server = server_of(raw)
    if server is None:
        if "serverToken" in raw and "server" not in _ssh(raw):
            yield Problem("serverToken", f"is for a tunnel server elsewhere, and there is no {PROJECT}:{PATH}")
        return
    yield from _gated(server, raw) if server.gate else _token("serverToken", raw.get("serverToken"), server)
    yield from _by_address(server, raw) if server.is_address else _by_name(server, raw)


def _gated(server: ServerSpec, raw: Raw) -> Iterator[Problem]:
    """Refuse a server with a gate that has handed nothing over: it would refuse every unit."""
    if "serverToken" in raw:
        yield Problem("serverToken", f"stands beside {PATH} with `gate: true`; its token is in {PROJECT}:platformKeys")
    if "platformKeys" not in raw:
        advice = f"`pulumi config set --secret {PROJECT}:platformKeys` with what its operator gives: {{key, token}}"
        yield Problem("platformKeys", f"is missing: the gate at {server.address} admits units by it; {advice}")
    elif keys := valid(PlatformKeys, raw["platformKeys"]):
        yield from _token("platformKeys.token", keys.token.get_secret_value(), server)


def _token(path: str, said: object, server: ServerSpec) -> Iterator[Problem]:
    if said is None:
        advice = f"`pulumi config set --secret {PROJECT}:{path}` with the token that it demands of its clients"
        yield Problem(path, f"is missing: units log in with it at {server.address}; {advice}")
    elif not TOKEN.fullmatch(str(said)):
        yield Problem(path, "must be 16 to 512 printable characters without blanks: so units take it, and frp")


def _in_vain(ssh: Mapping[str, Any]) -> Iterator[Problem]:
    for key in OF_OUR_OWN if ssh.get("server") is not None else ():
        if key in ssh:
            advice = "`server` stands in their place, so leave it out"
            yield Problem(f"platform.ssh.{key}", f"is for our own tunnel servers; {advice}")


def _by_address(server: ServerSpec, raw: Raw) -> Iterator[Problem]:
    """Refuse an address that is no server's elsewhere."""
    cidr, cluster = ranges.host(server.address), valid(ClusterConfig, raw.get("cluster", {}))
    if what := sealed(cidr):
        yield Problem(f"{PATH}.address", f"{server.address} lies in {what}, which no reason opens")
    elif cluster and (key := of_cluster(cidr, cluster)):
        yield Problem(f"{PATH}.address", f"{server.address} is the cluster's own ({key}), and no server elsewhere")


def _by_name(server: ServerSpec, raw: Raw) -> Iterator[Problem]:
    """Refuse a name whose port is closed: to a policy the server is a part of the internet."""
    tenants: Any = raw.get("tenants")
    said = tenants.items() if isinstance(tenants, Mapping) else ()
    closed = {
        "egress": raw,
        **{f"tenants.{name}.egress": tenant for name, tenant in said if isinstance(tenant, Mapping)},
    }
    for path, where in closed.items():
        egress = valid(EgressSpec, where.get("egress", {}))
        ports = egress.internet_ports if egress else None
        if ports is not None and PortRule(port=server.port) not in ports:
            advice = f"add {server.port}, or give the server's IP address"
            yield Problem(f"{path}.internetPorts", f"{server.address} is reached as a part of the internet; {advice}")


def _ssh(raw: Raw) -> Mapping[str, Any]:
    """Give what is said of SSH; nothing where it is of another shape, which its types refuse."""
    platform: Any = raw.get("platform")
    ssh = platform.get("ssh") if isinstance(platform, Mapping) else None
    return ssh if isinstance(ssh, Mapping) else {}
