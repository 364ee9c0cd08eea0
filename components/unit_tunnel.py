"""What a unit's tunnel client is told."""

import json
from collections.abc import Iterable

from components.gpu_unit import Unit


def tunnel_json(unit: Unit, servers: Iterable[tuple[str, str, int]], server_name: str) -> str:
    """Say to the tunnel client who it is and which servers (name, address, port) to announce its host to."""
    who = {"owner": unit.owner, "namespace": unit.namespace, "unit": unit.name, "host": unit.host}
    listed = [{"name": name, "address": address, "port": port} for name, address, port in servers]
    return json.dumps({**who, "serverName": server_name, "servers": listed}, indent=1)
