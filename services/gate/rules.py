"""What a tunnel client may do, decided from frps's plugin request alone: pure, and every doubt is a refusal."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gate.capability import is_capable, is_own_run_id, new_run_id
from gate.claim import Claim, RefusedError, claim_of

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
    """What this gate knows: its keys (newest first) and the stacks that it admits."""

    keys: tuple[bytes, ...]
    owners: frozenset[str]


@dataclass(frozen=True)
class Allowed:
    """A granted request: who made it, and the content to use instead of the client's where that must change."""

    op: str
    claim: Claim
    client: str
    content: Mapping[str, Any] | None = None


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
    claim = _proved(content.get("metas"), policy)
    _refuse_others(content, LOGIN_FIELDS)
    pool = content.get("pool_count", 0)
    if type(pool) is not int or not 0 <= pool <= MAX_POOL:
        raise RefusedError(f"pool_count must be 0 to {MAX_POOL}")
    run_id = content.get("run_id", "")
    if isinstance(run_id, str) and is_own_run_id(run_id, claim, policy.keys):
        return Allowed("Login", claim, _client(content, "client_address"))
    # A run id that was not given to this very unit would take over another's session: it gets one of its own.
    bound = {**content, "run_id": new_run_id(claim, policy.keys)}
    return Allowed("Login", claim, _client(content, "client_address"), bound)


def _new_proxy(content: Mapping[str, Any], policy: Policy) -> Allowed:
    claim = _proved(_user(content).get("metas"), policy)
    _refuse_others(content, PROXY_FIELDS)
    if content.get("proxy_type") != "tcpmux" or content.get("multiplexer") != "httpconnect":
        raise RefusedError("only a tcpmux proxy with multiplexer httpconnect is allowed")
    if content.get("custom_domains") != [claim.host]:
        raise RefusedError(f"this unit may announce {claim.host!r} and nothing else")
    if content.get("proxy_name") != claim.host:
        raise RefusedError(f"this unit's proxy is named {claim.host!r}")
    return Allowed("NewProxy", claim, "")


def _new_user_conn(content: Mapping[str, Any], policy: Policy) -> Allowed:
    claim = _proved(_user(content).get("metas"), policy)
    if content.get("proxy_name") != claim.host or content.get("proxy_type") != "tcpmux":
        raise RefusedError(f"this unit takes connections for {claim.host!r} only")
    return Allowed("NewUserConn", claim, _client(content, "remote_addr"))


def _proved(metas: object, policy: Policy) -> Claim:
    claim, given = claim_of(metas, policy.owners)
    if not is_capable(given, claim, policy.keys):
        raise RefusedError(
            f"the capability is not that of unit {claim.unit!r} in {claim.namespace!r} for {claim.host!r}"
        )
    return claim


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
