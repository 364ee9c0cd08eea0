"""Problems of a tunnel server elsewhere that only several values show."""

from collections.abc import Iterator, Mapping
from typing import Any

from components import ranges
from components.egress import SEALED, EgressSpec, PortRule
from components.names import PROJECT
from components.tunnel import FrpSpec
from components.tunnel_server import ServerSpec
from stacks.problems import Problem, Raw, valid

PATH = "platform.ssh.server"


def server_of(raw: Raw) -> ServerSpec | None:
    """Give the server elsewhere that a stack file names; None where there is none, or where it is itself refused."""
    platform: Any = raw.get("platform")
    ssh = valid(FrpSpec, platform.get("ssh")) if isinstance(platform, Mapping) else None
    return ssh.server if ssh else None


def server_problems(raw: Raw) -> Iterator[Problem]:
    """Yield what is wrong with the server elsewhere, its token, and the way to it."""
    server = server_of(raw)
    if server is None:
        if "serverToken" in raw and not _said(raw):
            yield Problem("serverToken", f"is for a tunnel server elsewhere, and there is no {PROJECT}:{PATH}")
        return
    if "serverToken" not in raw:
        advice = f"`pulumi config set --secret {PROJECT}:serverToken` with the token that it demands of its clients"
        yield Problem("serverToken", f"is missing: units log in with it at {server.address}; {advice}")
    if server.is_address and (sealed := ranges.covering(ranges.host(server.address), SEALED)):
        yield Problem(f"{PATH}.address", f"{server.address} lies in {sealed} ({SEALED[sealed]}), which no reason opens")
    stack = valid(EgressSpec, raw.get("egress", {}))
    ports = stack.internet_ports if stack else None
    closed = ports is not None and PortRule(port=server.port) not in ports
    if closed and not server.is_address:
        advice = f"add {server.port} to egress.internetPorts, or give the server's IP address"
        yield Problem(f"{PATH}.address", f"{server.address} is reached as a part of the internet; {advice}")


def _said(raw: Raw) -> bool:
    platform: Any = raw.get("platform")
    ssh = platform.get("ssh") if isinstance(platform, Mapping) else None
    return isinstance(ssh, Mapping) and "server" in ssh
