"""frpc's configuration, as a pure function. JSON is one of frp's formats, and Python quotes it for us."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tunnel.wanted import Server, Wanted

HEARTBEAT_SECONDS = 10
"""Said explicitly, since frp has no heartbeats with tcpMux by default."""

HEARTBEAT_TIMEOUT_SECONDS = 30
"""A client that is silent this long is gone: its host is free for the pod that replaces it."""

POOL = 1
"""Connections that wait at the server for a session to come: one saves a login a round trip, more save nothing."""

KEEPALIVE_SECONDS = 60
"""Between signs of life on a connection that waits or idles, so that no firewall between forgets it."""


@dataclass(frozen=True)
class Admin:
    """frpc's own status API: loopback is shared with the user's container, so it takes a password as well."""

    port: int
    password: str
    user: str = "supervisor"


def frpc_config(wanted: Wanted, server: Server, admin: Admin, folder: Path, local_port: int) -> str:
    """Return the configuration of the frpc that keeps *wanted* announced on *server*.

    ``ca.crt`` and ``token`` lie in *folder*, beside it; the capability is in the text itself, since frp knows metadata
    nowhere else: the text is a secret.
    """
    said = {
        "serverAddr": server.address,
        "serverPort": server.port,
        # A first login that fails ends frpc, so that the next try, ours, has the newest files.
        "loginFailExit": True,
        "auth": {
            "method": "token",
            "tokenSource": {"type": "file", "file": {"path": str(folder / "token")}},
            "additionalScopes": ["HeartBeats", "NewWorkConns"],
        },
        "log": {"to": "console", "level": "info", "disablePrintColor": True},
        "webServer": {"addr": "127.0.0.1", "port": admin.port, "user": admin.user, "password": admin.password},
        "transport": _transport(wanted, folder),
        "metadatas": {**asdict(wanted.unit), "capability": wanted.access.capability},
        "proxies": [_proxy(wanted.unit.host, local_port)],
    }
    return json.dumps(said, indent=1) + "\n"


def _transport(wanted: Wanted, folder: Path) -> dict[str, object]:
    return {
        "protocol": "tcp",
        "wireProtocol": "v2",
        "tcpMux": wanted.access.tcp_mux,
        "poolCount": POOL,
        "dialServerKeepalive": KEEPALIVE_SECONDS,
        "heartbeatInterval": HEARTBEAT_SECONDS,
        "heartbeatTimeout": HEARTBEAT_TIMEOUT_SECONDS,
        # frpc verifies its server only where both are given.
        "tls": {"enable": True, "trustedCaFile": str(folder / "ca.crt"), "serverName": wanted.access.server_name},
    }


def _proxy(host: str, local_port: int) -> dict[str, object]:
    """Announce sshd without a look at it: the supervisor starts frpc once sshd greets, and frpc's look waits 0.5 s."""
    return {
        "name": host,
        "type": "tcpmux",
        "multiplexer": "httpconnect",
        "customDomains": [host],
        "localIP": "127.0.0.1",
        "localPort": local_port,
    }
