"""frps' configuration, in its own words; no secret is in it, so the text is public and its hash may be shown."""

from components import names

PKI_DIR = "/pki"
"""Where frps finds its certificate, its key, the authority of the gate and the token: one Secret."""

HEARTBEAT_TIMEOUT_SECONDS = 40
"""A client that is silent this long is gone; ours speaks every 10 s. frp leaves both off over a shared stream."""

KEEPALIVE_SECONDS = 60
"""Between signs of life on a connection that waits or idles, so that no firewall between forgets it."""

GATE_OPERATIONS = ("Login", "NewProxy", "NewUserConn")
"""Never Ping: frp answers a failed Ping call by dropping the client and every session in it."""


def frps_toml(gate: str) -> str:
    """Configure one tunnel server that asks *gate* (``https://host:port``) before it believes a client."""
    operations = ", ".join(f'"{operation}"' for operation in GATE_OPERATIONS)
    return f"""\
# units come through the door beside us, and only it comes here
bindAddr = "127.0.0.1"
bindPort = {names.FRPS_TUNNEL_PORT}
# clients come through the entrance beside us, and only it comes here
proxyBindAddr = "127.0.0.1"
tcpmuxHTTPConnectPort = {names.FRPS_CONNECT_PORT}
# the companion beside us asks which hosts lead through us; nobody else reaches this
webServer.addr = "127.0.0.1"
webServer.port = {names.FRPS_API_PORT}
# no client may ever open a port here; 1 is a port that an unprivileged process cannot bind
allowPorts = [{{ single = 1 }}]
# why it is refused: its operator reads it from the client; the gate tells nothing to who proves nothing
detailedErrorsToClient = true
transport.heartbeatTimeout = {HEARTBEAT_TIMEOUT_SECONDS}
transport.maxPoolCount = 5
# each session has a connection of its own: faster, and no slow one holds up the others
transport.tcpMux = false
transport.tcpKeepalive = {KEEPALIVE_SECONDS}
transport.tls.force = true
transport.tls.certFile = "{PKI_DIR}/tls.crt"
transport.tls.keyFile = "{PKI_DIR}/tls.key"
auth.method = "token"
auth.additionalScopes = ["HeartBeats", "NewWorkConns"]
auth.tokenSource.type = "file"
auth.tokenSource.file.path = "{PKI_DIR}/token"
log.to = "console"
log.level = "info"
log.disablePrintColor = true

[[httpPlugins]]
name = "gate"
addr = "{gate}"
path = "/frp"
ops = [{operations}]
tlsVerify = true
"""
