"""What a unit's tunnel client is told, and what its clients are."""

import json
from collections.abc import Iterable

import pulumi

from components.gpu_unit import Unit, UnitSecrets, unit_manifests
from components.keys_now import told_by
from components.kube import register
from components.ssh_client import Access


def tunnel_json(unit: Unit, servers: Iterable[tuple[str, str, int]], server_name: str, *, tcp_mux: bool) -> str:
    """Say to the tunnel client who it is and which servers (name, address, port) to announce its host to."""
    who = {"owner": unit.owner, "namespace": unit.namespace, "unit": unit.name, "host": unit.host}
    listed = [{"name": name, "address": address, "port": port} for name, address, port in servers]
    return json.dumps({**who, "serverName": server_name, "tcpMux": tcp_mux, "servers": listed}, indent=1)


def credentials(
    unit: Unit, secrets: UnitSecrets, opts: pulumi.ResourceOptions, told: pulumi.ResourceHook | None = None
) -> dict[str, pulumi.CustomResource]:
    """Register what the unit's tunnel client logs in with, by role; nothing for a unit without SSH.

    Apart from the unit, which comes after the tunnel servers: they must not demand what no unit has got yet.
    *told* (see keys_now) has the unit's pod take it up at once.
    """
    found = {role: made for role, made in unit_manifests(unit, secrets).items() if role == "tunnel"}
    return register(unit.alias, found, options=told_by(told, "tunnel"), opts=opts)


def ssh_access(unit: Unit, host_key: str) -> Access | None:
    """Say how clients reach *unit*, whose host key is *host_key*; None for a unit without SSH."""
    if unit.spec.ssh is None:
        return None
    host, port = unit.connect
    return Access(unit.alias, unit.spec.ssh.username, unit.host, host, port, host_key)
