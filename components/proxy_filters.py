"""What a request passes on its way through the proxy, in this order; names that routes.json uses are constants here.

limits by source -> rules -> password, or issuer -> limit by origin -> user noted -> limit by tenant -> headers
-> router

What routes.json must say, since filters look at the route that matched: each virtual host its users under `BASIC_AUTH`,
and at its end a route for every path (404), else a path that nobody routes asks for a password that nobody has. The
main host needs no virtual host: the rules answer it, and every host without one is refused like a wrong password.
"""

from components import proxy_oidc
from components.envoy import Config, lua, typed
from components.proxy_answers import USER_HEADER, USER_STATE
from components.proxy_module import sources_share, tenants_share
from components.proxy_oidc import CLAIMED_USER_HEADER, ID_TOKEN_HEADER, Oidc
from components.proxy_rules import METADATA, rules
from components.proxy_spec import ProxyLimitsSpec

BASIC_AUTH = "envoy.filters.http.basic_auth"
"""A virtual host says its users under this name (BasicAuthPerRoute); one that says none lets nobody in."""

SOURCE_LIMIT = "gpu-runtime.limit.source"
ORIGIN_LIMIT = "gpu-runtime.limit.origin"

NOBODY = "nobody:{SHA}AAAAAAAAAAAAAAAAAAAAAAAAAAA="
"""The one user of the filter itself: no password is known, or will be found, whose hash is zero."""

REMEMBERED = 10_000
"""Sources and origins whose requests are counted at once; the one that was quiet longest makes room."""


def http_filters(host: str, limits: ProxyLimitsSpec, module: str, oidc: Oidc | None = None) -> list[Config]:
    """Give the chain of the proxy whose main host is *host*, where *oidc* signs people in as well.

    *module*: where the module lies that counts what each source and each tenant has open.
    """
    source = {"masked_remote_address": {"v6_prefix_mask_len": 64}}
    # as the rules noted it: a host as the client writes it has as many forms as there are ports
    noted = {"key": METADATA, "path": [{"key": "origin"}]}
    origin = {"metadata": {"descriptor_key": "origin", "metadata_key": noted, "source": "DYNAMIC"}}
    return [
        sources_share(limits, module),
        _limit(SOURCE_LIMIT, source, "masked_remote_address", limits.per_source),
        *([proxy_oidc.callback_filter(oidc)] if oidc else ()),
        lua("gpu-runtime.rules", rules(host)),
        *([proxy_oidc.aside(), proxy_oidc.parts(), proxy_oidc.sign_in(oidc)] if oidc else ()),
        _basic_auth(only=oidc is None),
        *(proxy_oidc.judges(oidc) if oidc else ()),
        _limit(ORIGIN_LIMIT, origin, "origin", limits.per_origin),
        _note_user(),
        tenants_share(limits, module),
        _headers(),
        *([proxy_oidc.put_back()] if oidc else ()),
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


def _basic_auth(*, only: bool) -> Config:
    """Demand a password of everybody: what says no users of its own, an unknown host included, has only `NOBODY`.

    Where it is not the *only* way in, who says no password passes, and a later filter judges; who says one is judged.
    """
    kind = "envoy.extensions.filters.http.basic_auth.v3.BasicAuth"
    beside = {} if only else {"allow_missing": True, "emit_dynamic_metadata": True}
    users = {"inline_string": f"{NOBODY}\n"}
    return typed(BASIC_AUTH, kind, users=users, forward_username_header=USER_HEADER, **beside)


def _note_user() -> Config:
    value = {"text_format_source": {"inline_string": WHO}}
    noted = {"object_key": USER_STATE, "factory_key": "envoy.string", "format_string": value}
    kind = "envoy.extensions.filters.http.set_filter_state.v3.Config"
    return typed("gpu-runtime.user", kind, on_request_headers=[noted])


def _headers() -> Config:
    """Send no password upstream, and the name under which the client came."""
    said = {"x-forwarded-host": "%REQ(:AUTHORITY)%", USER_HEADER: WHO}
    added = [{"append": {"header": {"key": k, "value": v}, "append_action": OVERWRITE}} for k, v in said.items()]
    mutations = {"request_mutations": [*added, *({"remove": name} for name in PRIVATE)]}
    kind = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"
    return typed("gpu-runtime.headers", kind, mutations=mutations)


WHO = f"%REQ({USER_HEADER}?{CLAIMED_USER_HEADER})%"
"""Who signed in: by a password, else as an ID token says."""

PRIVATE = ("authorization", "x-envoy-external-address", CLAIMED_USER_HEADER, ID_TOKEN_HEADER)
"""What is not for whom the proxy asks: the client's password, and Envoy's own word for what X-Forwarded-For says."""

OVERWRITE = "OVERWRITE_IF_EXISTS_OR_ADD"

CLAIMED = ("x-forwarded-", "x-gpu-runtime-", "x-envoy-", "x-real-ip", "true-client-ip", "x-original-", "x-rewrite-url")
"""Beginnings of headers in which a client would speak about itself in the proxy's name."""


def early_mutations() -> list[Config]:
    """Drop what a client says of itself before anything reads it; the connection tells it anew."""
    dropped = [{"remove_on_match": {"key_matcher": {"prefix": name, "ignore_case": True}}} for name in CLAIMED]
    kind = "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"
    return [typed("gpu-runtime.claims", kind, mutations=[{"remove": "forwarded"}, *dropped])]
