"""What a tunnel client may do, decided from frps's plugin request and what the gate knows: every doubt is a refusal.

What ends with a unit: whether it is there is asked at each Login, NewProxy and NewUserConn, so that one which was
removed, or whose capability is of a key that is gone, gets no further session from that moment on. Sessions that are
open stay open: frps has no word for ending one, save at a Ping, where a mistake or an absence of the gate would end
everybody's. They end with the unit's pod, which the same `up` removes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from gate.capability import is_own_run_id, new_run_id, proving_key
from gate.claim import Claim, RefusedError, claim_of
from gate.view import View

PLUGIN_VERSION = "0.1.0"
"""The plugin protocol of frp 0.70.1; another one would have fields that nobody here has judged."""

MAX_POOL = 5
"""frps's default maxPoolCount. A negative count from a client makes frps panic, so it ends here."""

LOGIN_FIELDS = frozenset(
    {
        "version", "hostname", "os", "arch", "privilege_key", "timestamp", "run_id", "metas", "pool_count",
        "client_address",
    }
)  # fmt: skip
"""What frpc 0.70.1 sends with our configuration; ``user`` and ``client_id`` would give one client two names."""

PROXY_FIELDS = frozenset({"user", "proxy_name", "proxy_type", "multiplexer", "custom_domains"})
"""What a plain tcpmux proxy consists of; groups, routes by user, ports and the like each widen it."""


@dataclass(frozen=True)
class Policy:
    """What this gate knows: its keys (newest first), the stacks that it admits and the units that there are."""

    keys: tuple[bytes, ...]
    owners: frozenset[str]
    view: View
    bandwidth: str | None = None
    """Of each unit at each frps, to and from it together, in frp's words; None: as much as there is."""


@dataclass(frozen=True)
class Allowed:
    """A granted request: who made it, and the content to use instead of the client's where that must change."""

    op: str
    claim: Claim
    client: str
    content: Mapping[str, Any] | None = None
    previous: bool = False
    """The capability is of a key that is being rotated out: the client would be refused without it."""


def judge(request: object, policy: Policy) -> Allowed:
    """Decide one plugin request.

    Raises:
        RefusedError: whatever is not exactly an allowed Login, NewProxy or NewUserConn of a capable unit.

    """
    if not isinstance(request, Mapping) or request.get("version") != PLUGIN_VERSION:
        raise RefusedError(f"not a request of frp's plugin protocol {PLUGIN_VERSION}")
    content = request.get("content")
    if not isinstance(content, Mapping):
        raise RefusedError("the request has no content")
    match request.get("op"):
        case "Login":
            return _login(content, policy)
        case "NewProxy":
            return _new_proxy(content, policy)
        case "NewUserConn":
            return _new_user_conn(content, policy)
        case _:
            raise RefusedError("this gate answers Login, NewProxy and NewUserConn only")


def _login(content: Mapping[str, Any], policy: Policy) -> Allowed:
    proved = _proved(content.get("metas"), policy)
    _refuse_others(content, LOGIN_FIELDS)
    pool = content.get("pool_count", 0)
    if type(pool) is not int or not 0 <= pool <= MAX_POOL:
        raise RefusedError(f"pool_count must be 0 to {MAX_POOL}")
    run_id = content.get("run_id", "")
    allowed = proved.allowed("Login", _client(content, "client_address"))
    if isinstance(run_id, str) and is_own_run_id(run_id, proved.claim, policy.keys):
        return allowed
    # A run id that was not given to this very unit would take over another's session: it gets one of its own.
    return replace(allowed, content={**content, "run_id": new_run_id(proved.claim, policy.keys)})


def _new_proxy(content: Mapping[str, Any], policy: Policy) -> Allowed:
    proved = _proved(_user(content).get("metas"), policy)
    host = proved.claim.host
    _refuse_others(content, PROXY_FIELDS)
    if content.get("proxy_type") != "tcpmux" or content.get("multiplexer") != "httpconnect":
        raise RefusedError("only a tcpmux proxy with multiplexer httpconnect is allowed")
    if content.get("custom_domains") != [host]:
        raise RefusedError(f"this unit may announce {host!r} and nothing else")
    if content.get("proxy_name") != host:
        raise RefusedError(f"this unit's proxy is named {host!r}")
    allowed = proved.allowed("NewProxy", "")
    if policy.bandwidth is None:
        return allowed
    # By the server, so that what a client does or leaves changes nothing; what it asks for itself was refused above.
    limit = {"bandwidth_limit": policy.bandwidth, "bandwidth_limit_mode": "server"}
    return replace(allowed, content={**content, **limit})


def _new_user_conn(content: Mapping[str, Any], policy: Policy) -> Allowed:
    proved = _proved(_user(content).get("metas"), policy)
    host = proved.claim.host
    if content.get("proxy_name") != host or content.get("proxy_type") != "tcpmux":
        raise RefusedError(f"this unit takes connections for {host!r} only")
    return proved.allowed("NewUserConn", _client(content, "remote_addr"))


class _Proved(NamedTuple):
    claim: Claim
    key: int

    def allowed(self, op: str, client: str) -> Allowed:
        return Allowed(op, self.claim, client, previous=self.key > 0)


def _proved(metas: object, policy: Policy) -> _Proved:
    claim, given = claim_of(metas, policy.owners)
    key = proving_key(given, claim, policy.keys)
    if key is None:
        raise RefusedError(
            f"the capability is not that of unit {claim.unit!r} in {claim.namespace!r} for {claim.host!r}"
        )
    policy.view.demand(claim)  # last: who proves nothing learns nothing of what there is
    return _Proved(claim, key)


def _user(content: Mapping[str, Any]) -> Mapping[str, Any]:
    user = content.get("user")
    if not isinstance(user, Mapping) or user.get("user"):
        raise RefusedError("the request names no client, or one with a user prefix")
    return user


def _refuse_others(content: Mapping[str, Any], allowed: frozenset[str]) -> None:
    others = sorted(field for field, value in content.items() if field not in allowed and value)
    if others:
        raise RefusedError(f"not allowed here: {', '.join(others)[:200]}")


def _client(content: Mapping[str, Any], field: str) -> str:
    address = content.get(field, "")
    return address[:64] if isinstance(address, str) else ""
