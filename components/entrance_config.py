"""HAProxy's configuration, in its own words: the door in front of one frps. No secret is in it."""

import re
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from components import names
from components.model import Model, Whole, matching

SESSIONS_LUA = "/opt/gpu-runtime/entrance/sessions.lua"
"""In the image: says when a session begins (services/entrance)."""

GRACE_SECONDS = 10
"""After the signal to end, still take connections: a busy cluster needs some seconds to send them elsewhere."""

HEADER_SECONDS = 5
"""For a client's CONNECT, which fits one packet: nobody holds a place by being slow."""

TUNNEL_DAYS = 20
"""An idle session may last; dead clients go by keepalives. HAProxy counts to 24 days."""

TOO_MANY = 2
"""Times a source's limit: from here on its connections are closed unread, which costs next to nothing."""

WINDOW_SECONDS = 10
"""Over which new connections are counted: a class that logs in together is one burst and no flood."""

STARTUPS = 150
"""Connections that have not logged in from which on a unit's sshd turns some away at random: MaxStartups of images/."""

PAIR = 32
"""Connections of one source to one unit: Ansible's 25 forks and an editor pass. It does not go by the number of
servers, else another number would roll them all; from five on a stack says its own (stacks/tier_checks.py)."""

RESERVE = 64
"""Connections beside those of clients: the kubelet's questions."""

SPARE = 64
"""Connections of a unit beside those of its sessions: to be called by, waiting, and ended ones not yet noticed."""

UNITS = 4096
"""Connections of all units beside those of sessions: two for each of 2,000."""

HOST = "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[0-9]{1,5})?$"
"""What CONNECT may name: a host name and a port. So it is what frps looks up, and harmless in a log."""


Bandwidth = Annotated[
    str, matching(re.compile(r"[1-9][0-9]{0,4}MB"), "must be a whole number of MB a second, 1MB to 99999MB")
]
"""In frp's words, where MB are 2^20 bytes."""


class TunnelLimitsSpec(Model):
    """How many connections of units each tunnel server takes at once.

    A unit has one to be called by, one that waits for a session, and one for each session.
    """

    per_source: Annotated[Whole, Field(ge=8, le=100_000)] | None = None
    """From one address, which is one unit's pod unless the cluster hides it. Default: perUnit and SPARE more."""
    total: Annotated[Whole, Field(ge=8, le=100_000)] | None = None
    """Of all. Default: those of all sessions, and UNITS more."""
    new_per_source: Annotated[Whole, Field(ge=8, le=100_000)] | None = None
    """New ones from one address in WINDOW_SECONDS. Default: twice newPerSource, which 300 units of a node fit that
    start at once behind one address, and with which a single pod takes an eighth of what two gates answer."""

    def of_source(self, limits: "LimitsSpec") -> int:
        """Give the limit of one address, beside the *limits* of clients."""
        return self.per_source or limits.per_unit + SPARE

    def of_all(self, limits: "LimitsSpec") -> int:
        """Give the limit of all, beside the *limits* of clients."""
        return self.total or limits.total + UNITS

    def of_new(self, limits: "LimitsSpec") -> int:
        """Give the limit of new ones from one address, beside the *limits* of clients."""
        return self.new_per_source or 2 * limits.new_per_source


class LimitsSpec(Model):
    """How many connections each tunnel server takes at once, and how much each unit may send and take through it."""

    per_source: Annotated[Whole, Field(ge=1, le=100_000)] = 256
    """From one IPv4 address, or one /64 of IPv6; with `externalTrafficPolicy: Cluster` that is a node's address."""
    per_unit: Annotated[Whole, Field(ge=2, le=100_000)] = 128
    """To one host: of one, a source could be all."""
    per_source_of_unit: Annotated[Whole, Field(ge=1, le=100_000)] | None = None
    """From one source to one host, so that none locks the others out. Default: PAIR, or what is less than perUnit."""
    new_per_source: Annotated[Whole, Field(ge=1, le=100_000)] = 300
    """New ones from one source in WINDOW_SECONDS: 100 people behind one address, three connections each, one after
    another; to hold them all takes a higher perSource. A gate answers some 500 a second, so that a source takes a
    fifteenth of what two gates do."""
    total: Annotated[Whole, Field(ge=1, le=20_000)] = 4096
    """Of all, those that have not said CONNECT yet included."""
    bandwidth: Bandwidth | None = None
    """Of each unit in a second, to and from it together; the gate has frps keep it, whatever the unit's client says."""
    tunnel: TunnelLimitsSpec = TunnelLimitsSpec()

    @property
    def of_pair(self) -> int:
        """The limit of one source to one unit."""
        return self.per_source_of_unit or min(PAIR, self.per_unit - 1)


@dataclass(frozen=True)
class Doors:
    """Where the entrance listens, and where frps does."""

    connect: str = f":{names.CONNECT_PORT}"
    health: str = f":{names.HEALTH_PORT}"
    frps: str = f"127.0.0.1:{names.FRPS_CONNECT_PORT}"
    lua: str = field(default=SESSIONS_LUA)


ENDED = {
    "time": "%[date,utime(%Y-%m-%dT%H:%M:%SZ)]",
    "event": "%[var(txn.event,refused)]",
    "host": "%[var(txn.host,-)]",
    "client": "%ci:%cp",
    "frps": "%bi:%bp",
}
ENDED_NUMBERS = {"status": "%ST", "milliseconds": "%Tt", "up": "%U", "down": "%B"}
"""The line at the end of a session, or of what was refused; `frps` is what frps and the gate call the client."""


def haproxy_cfg(limits: LimitsSpec, drain: int, doors: Doors | None = None) -> str:
    """Configure the entrance of a server; at its end it lets sessions go on for at most *drain* seconds."""
    at = doors or Doors()
    return f"{_common(limits, drain, at)}{_connect(limits, at)}{_behind(at)}"


def _log_format() -> str:
    words = [f'"{key}":"{value}"' for key, value in ENDED.items()]
    return "{" + ",".join([*words, *(f'"{key}":{value}' for key, value in ENDED_NUMBERS.items())]) + "}"


def _common(limits: LimitsSpec, drain: int, doors: Doors) -> str:
    return f"""\
global
  log stdout format raw local0 info
  maxconn {limits.total + RESERVE}
  nbthread 2
  # a node that grants fewer files gets an entrance with fewer connections, not none
  no strict-limits
  grace {GRACE_SECONDS}s
  hard-stop-after {drain}s
  lua-load {doors.lua}

defaults
  mode http
  log global
  option dontlognull
  # one connection of HTTP/2 would be any number of sessions, and limits count connections
  option disable-h2-upgrade
  option http-server-close
  option splice-auto
  timeout connect 2s
  timeout http-request {HEADER_SECONDS}s
  timeout client 15s
  timeout server 15s
  timeout tunnel {TUNNEL_DAYS}d
  timeout client-fin 30s
  timeout server-fin 30s

frontend health
  bind {doors.health}
  monitor-uri /healthz
  no log

"""


def _connect(limits: LimitsSpec, doors: Doors) -> str:
    return f"""\
frontend connect
  bind {doors.connect}
  maxconn {limits.total}
  option clitcpka
  clitcpka-idle 60s
  clitcpka-intvl 20s
  clitcpka-cnt 4
  # proxytunnel names its proxy as Host; frps goes by the target alone, and so do we
  option accept-invalid-http-request
  log-format '{_log_format()}'
  stick-table type ipv6 size 100k expire 1m store conn_cur,conn_rate({WINDOW_SECONDS}s),gpc0_rate({WINDOW_SECONDS}s)
  tcp-request connection track-sc0 src,ipmask(32,64)
  tcp-request connection reject if {{ sc0_conn_cur gt {limits.per_source * TOO_MANY} }}
  tcp-request connection reject if {{ sc0_conn_rate gt {limits.new_per_source * TOO_MANY} }}
  http-request deny deny_status 405 unless METH_CONNECT
  http-request deny deny_status 400 unless {{ url -m reg -i {HOST} }}
  http-request set-var(txn.host) url,lower,field(1,:)
{_refusals(limits)}  # frps would answer 200 before it looks at a password, and knows none
  http-request del-header proxy-authorization
  http-response set-var(txn.port) bc_src_port
  http-response set-var(txn.event) str(end) if {{ status 200 }}
  http-response lua.say_session if {{ status 200 }}
  default_backend frps

"""


def _refusals(limits: LimitsSpec) -> str:
    """Refuse what is above a limit; what a source may not hold itself counts neither for its unit nor as new."""
    return f"""\
  http-request {_deny("from your address")} if {{ sc0_conn_cur gt {limits.per_source} }}
  # what got through counts, and not what was refused: who comes too fast gets in as often as who keeps to it
  http-request {_deny("from your address in so short a time")} if {{ sc0_gpc0_rate ge {limits.new_per_source} }}
  http-request set-var(txn.source) src,ipmask(32,64)
  http-request track-sc2 var(txn.source),concat(" ",txn.host) table pairs
  http-request {_deny("from your address to this unit")} if {{ sc2_conn_cur(pairs) gt {limits.of_pair} }}
  http-request track-sc1 var(txn.host) table units
  http-request {_deny("to this unit")} if {{ sc1_conn_cur(units) gt {limits.per_unit} }}
  # each that gets this far costs the gate an answer
  http-request sc-inc-gpc0(0)
"""


def _deny(where: str) -> str:
    words = f"too many connections {where}: end some, or try again in {WINDOW_SECONDS} seconds"
    return f'deny deny_status 429 content-type text/plain string "{words}\\n"'


def _behind(doors: Doors) -> str:
    return f"""\
backend units
  stick-table type string len 256 size 100k expire 1m store conn_cur

# a source's address and the host
backend pairs
  stick-table type string len 300 size 100k expire 1m store conn_cur

backend frps
  option srvtcpka
  server frps {doors.frps}
"""
