"""What a request passes on its way through the proxy, in this order; names that routes.json uses are constants here.

limit by source -> rules -> password -> limit by origin -> user noted -> headers -> router

What routes.json must say, since filters look at the route that matched: each virtual host its users under `BASIC_AUTH`,
and at its end a route for every path (404), else a path that nobody routes asks for a password that nobody has. The
main host needs no virtual host: the rules answer it, and every host without one is refused like a wrong password.
"""

from typing import Any

from components.proxy_answers import USER_HEADER, USER_STATE
from components.proxy_rules import rules
from components.proxy_spec import ProxyLimitsSpec

BASIC_AUTH = "envoy.filters.http.basic_auth"
"""A virtual host says its users under this name (BasicAuthPerRoute); one that says none lets nobody in."""

SOURCE_LIMIT = "gpu-runtime.limit.source"
ORIGIN_LIMIT = "gpu-runtime.limit.origin"

NOBODY = "nobody:{SHA}AAAAAAAAAAAAAAAAAAAAAAAAAAA="
"""The one user of the filter itself: no password is known, or will be found, whose hash is zero."""

REMEMBERED = 10_000
"""Sources and origins whose requests are counted at once; the one that was quiet longest makes room."""

Config = dict[str, Any]


def typed(name: str, kind: str, **said: Any) -> Config:
    """Give an extension *name* of Envoy, with the full name of its configuration's *kind*."""
    return {"name": name, "typed_config": {"@type": f"type.googleapis.com/{kind}", **said}}


def http_filters(host: str, limits: ProxyLimitsSpec) -> list[Config]:
    """Give the chain of the proxy whose main host is *host*."""
    source = {"masked_remote_address": {"v6_prefix_mask_len": 64}}
    origin = {"request_headers": {"header_name": ":authority", "descriptor_key": "origin"}}
    return [
        _limit(SOURCE_LIMIT, source, "masked_remote_address", limits.per_source),
        _lua(host),
        _basic_auth(),
        _limit(ORIGIN_LIMIT, origin, "origin", limits.per_origin),
        _note_user(),
        _headers(),
        router(),
    ]


def router() -> Config:
    """Give the last filter, which says nothing of itself to either side."""
    kind = "envoy.extensions.filters.http.router.v3.Router"
    return typed("envoy.filters.http.router", kind, suppress_envoy_headers=True)


def _limit(name: str, action: Config, key: str, per_second: int) -> Config:
    """Answer 429 beyond *per_second* requests of one value of *key*, after a burst of as many seconds as `BURST`."""
    share = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}
    return typed(
        name,
        "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
        stat_prefix=key,
        filter_enabled=share,
        filter_enforced=share,
        rate_limits=[{"actions": [action]}],
        descriptors=[{"entries": [{"key": key}], "token_bucket": _bucket(per_second)}],
        token_bucket={"max_tokens": UNLIMITED, "tokens_per_fill": UNLIMITED, "fill_interval": "1s"},
        always_consume_default_token_bucket=False,
        max_dynamic_descriptors=REMEMBERED,
    )


UNLIMITED = 4_000_000_000
"""For the bucket that Envoy demands beside those of the descriptors; it fits 32 bits."""

BURST = 3
"""Seconds' worth at once: a page with a hundred parts is one click."""


def _bucket(per_second: int) -> Config:
    tick = max(1, per_second // 10)
    return {"max_tokens": per_second * BURST, "tokens_per_fill": tick, "fill_interval": f"{tick / per_second:.3f}s"}


def _lua(host: str) -> Config:
    source = {"inline_string": rules(host)}
    return typed("gpu-runtime.rules", "envoy.extensions.filters.http.lua.v3.Lua", default_source_code=source)


def _basic_auth() -> Config:
    """Demand a password of everybody: what says no users of its own, an unknown host included, has only `NOBODY`."""
    kind = "envoy.extensions.filters.http.basic_auth.v3.BasicAuth"
    return typed(BASIC_AUTH, kind, users={"inline_string": f"{NOBODY}\n"}, forward_username_header=USER_HEADER)


def _note_user() -> Config:
    value = {"text_format_source": {"inline_string": f"%REQ({USER_HEADER})%"}}
    noted = {"object_key": USER_STATE, "factory_key": "envoy.string", "format_string": value}
    kind = "envoy.extensions.filters.http.set_filter_state.v3.Config"
    return typed("gpu-runtime.user", kind, on_request_headers=[noted])


def _headers() -> Config:
    """Send no password upstream, and the name under which the client came."""
    host = {"header": {"key": "x-forwarded-host", "value": "%REQ(:AUTHORITY)%"}, "append_action": OVERWRITE}
    mutations = {"request_mutations": [*({"remove": name} for name in PRIVATE), {"append": host}]}
    kind = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"
    return typed("gpu-runtime.headers", kind, mutations=mutations)


PRIVATE = ("authorization", "x-envoy-external-address")
"""What is not for whom the proxy asks: the client's password, and Envoy's own word for what X-Forwarded-For says."""

OVERWRITE = "OVERWRITE_IF_EXISTS_OR_ADD"

CLAIMED = ("x-forwarded-", "x-envoy-", "x-real-ip", "true-client-ip", "x-original-", "x-rewrite-url")
"""Beginnings of headers in which a client would speak about itself in the proxy's name."""


def early_mutations() -> list[Config]:
    """Drop what a client says of itself before anything reads it; the connection tells it anew."""
    dropped = [{"remove_on_match": {"key_matcher": {"prefix": name, "ignore_case": True}}} for name in CLAIMED]
    kind = "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"
    return [typed("gpu-runtime.claims", kind, mutations=[{"remove": "forwarded"}, *dropped])]
