"""The door for units' tunnel clients: an HAProxy of its own before frps, so that no unit fills a server.

Apart from the entrance, which ends with the last session: a unit's control connection ends only with the server.
"""

from dataclasses import dataclass

from components import names, platform
from components.bundle import mount
from components.entrance_config import RESERVE, TUNNEL_DAYS, WINDOW_SECONDS, LimitsSpec
from components.model import Manifest, requirements
from policy.baseline import container_security

DOOR = "door"
CONFIG_DIR = "/config"
CONFIG_FILE = "door.cfg"

HELLO_SECONDS = 5
"""For the first words of TLS, which fit one packet; who is silent for longer never reaches frps."""

END_SECONDS = 1
"""At the end of the pod: sessions are over by then, and what units hold to be called ends with frps."""

RESOURCES = requirements({"cpu": "50m", "memory": "32Mi"}, {"cpu": "2", "memory": "256Mi"})
"""Every byte of every session passes here."""

ALIVE_PATH = "/frps"
"""The kubelet asks the door whether frps takes connections: frps listens on loopback, where no kubelet comes."""


@dataclass(frozen=True)
class TunnelDoors:
    """Where the door listens, and where frps does."""

    tunnel: str = f":{names.TUNNEL_PORT}"
    health: str = f":{names.DOOR_HEALTH_PORT}"
    frps: str = f"127.0.0.1:{names.FRPS_TUNNEL_PORT}"


LINE = '{"time":"%[date,utime(%Y-%m-%dT%H:%M:%SZ)]","event":"tunnel","client":"%ci:%cp","frps":"%bi:%bp","state":"%ts"}'
"""One for each connection: `frps` is what frps and the gate call the unit at `client`; `state` -- is well."""


def door_cfg(limits: LimitsSpec, doors: TunnelDoors | None = None) -> str:
    """Configure the door: what says hello in TLS, and so many connections of one address and of all."""
    at = doors or TunnelDoors()
    return f"{_common(limits)}{_health(at)}{_tunnel(limits, at)}"


def _common(limits: LimitsSpec) -> str:
    return f"""\
global
  log stdout format raw local0 info
  maxconn {limits.tunnel.of_all(limits) + RESERVE}
  nbthread 2
  # a node that grants fewer files gets a door with fewer connections, not none
  no strict-limits
  hard-stop-after {END_SECONDS}s

defaults
  mode tcp
  log global
  option dontlognull
  option splice-auto
  timeout connect 2s
  # frps ends who does not log in, and keepalives who is dead
  timeout client {TUNNEL_DAYS}d
  timeout server {TUNNEL_DAYS}d
  timeout client-fin 30s
  timeout server-fin 30s

"""


def _health(doors: TunnelDoors) -> str:
    return f"""\
frontend health
  mode http
  bind {doors.health}
  no log
  timeout client 15s
  monitor-uri /healthz
  http-request return status 200 if {{ path {ALIVE_PATH} }} {{ nbsrv(alive) gt 0 }}
  http-request return status 503

backend alive
  server frps {doors.frps} check inter 5s fastinter 1s

"""


def _tunnel(limits: LimitsSpec, doors: TunnelDoors) -> str:
    return f"""\
frontend tunnel
  bind {doors.tunnel}
  maxconn {limits.tunnel.of_all(limits)}
  option clitcpka
  clitcpka-idle 60s
  clitcpka-intvl 20s
  clitcpka-cnt 4
  option logasap
  log-format '{LINE}'
  # whole addresses: pods of one node may share a /64
  stick-table type ipv6 size 100k expire 1m store conn_cur,gpc0_rate({WINDOW_SECONDS}s)
  tcp-request connection track-sc0 src
  tcp-request connection reject if {{ sc0_conn_cur gt {limits.tunnel.of_source(limits)} }}
  # each may ask for a login, of which the gate judges before any token; what was refused does not count, so that units
  # which all come at once behind one address get in one after the other
  tcp-request connection reject if {{ sc0_gpc0_rate ge {limits.tunnel.of_new(limits)} }}
  tcp-request connection sc-inc-gpc0(0)
  tcp-request inspect-delay {HELLO_SECONDS}s
  tcp-request content accept if {{ req.ssl_hello_type 1 }}
  tcp-request content reject
  default_backend frps

backend frps
  option srvtcpka
  server frps {doors.frps}
"""


def door_container(image: str) -> Manifest:
    """Build the door's container, a sidecar: it stands until the entrance has ended, and with it the sessions."""
    return {
        "name": DOOR,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "args": [f"{CONFIG_DIR}/{CONFIG_FILE}"],
        "ports": [
            {"name": "tunnel", "containerPort": names.TUNNEL_PORT, "protocol": "TCP"},
            {"name": "door-health", "containerPort": names.DOOR_HEALTH_PORT, "protocol": "TCP"},
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "door-health"}, **platform.LIVENESS},
        "resources": RESOURCES,
        "securityContext": container_security(),
        "volumeMounts": [mount("config", CONFIG_DIR, read_only=True)],
    }
