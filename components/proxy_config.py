"""Envoy's configuration, as JSON: never YAML, in which `n` and `y` would be words of their own.

The listeners are static and the same for all tenants; virtual hosts and clusters come from files that `routes` writes
(RDS and CDS), so that a change of them cuts nothing.
"""

import json
from dataclasses import dataclass
from typing import Any

from components import names, proxy_callback, proxy_oidc
from components.envoy import Config, typed, watched
from components.proxy_answers import access_log, local_replies
from components.proxy_filters import early_mutations, http_filters, router
from components.proxy_module import MODULE, with_shares
from components.proxy_oidc import Oidc
from components.proxy_overload import overload
from components.proxy_spec import STREAMS, ProxyLimitsSpec
from components.routes import CLUSTERS_FILE, METRICS_SOCKET, ROUTES_DIR, ROUTES_FILE

ROUTE_CONFIG = names.PROJECT
"""Name of the one RouteConfiguration."""

TLS_DIR = "/tls"
SDS_FILE = "/config/sds.json"
ADMIN_SOCKET = "/run/envoy/admin.sock"
"""Envoy's administration may stop it and read its memory, so that it is no port at all."""

SOCKET = "websocket"
"""The one upgrade that is passed on; every other request for one is an ordinary request."""

CERTIFICATE = "proxy"
"""Name of the certificate in the file of secrets."""

HEADER_SECONDS = 10
"""For a TLS handshake, and for the head of a request: nobody holds a place by being slow."""

IDLE_SECONDS = 15 * 60
"""A stream that nothing passes ends: a download that its client does not read, a WebSocket without a ping."""

FLUSH_SECONDS = 2 * 60
"""For a client to take all of the end of an answer that is whole in the proxy's memory, at most 256 KiB by HTTP/2."""

UNREAD_SECONDS = IDLE_SECONDS
"""A connection whose client takes nothing at all ends, open streams or not: answers that are over lie in it, too."""

TCP, TCP_USER_TIMEOUT = 6, 18
"""Linux' numbers, of netinet/in.h and linux/tcp.h, for that."""

KEPT_SECONDS = 120
"""A connection without a request."""

BUFFER_BYTES = 64 * 1024
"""Per connection: what a slow reader may keep in the proxy's memory."""

CONNECTION_WINDOW = 1024 * 1024
"""Bytes on their way up in one connection of HTTP/2."""

HEADERS_KB, HEADERS_COUNT = 32, 100
"""Of a request; cookies of a notebook server fit many times."""


EVERY_IPV4, EVERY = "0.0.0.0", "::"  # noqa: S104 - in a pod of its own, behind walls
"""Where pods have addresses of IPv6, both kinds are taken; elsewhere a node's kernel may know none of them."""


@dataclass(frozen=True)
class Places:
    """Where the proxy listens and what it reads."""

    address: str = EVERY_IPV4
    https: int = names.PROXY_PORT
    plain: int = names.PROXY_PLAIN_PORT
    health: int = names.PROXY_HEALTH_PORT
    routes: str = ROUTES_DIR
    sds: str = SDS_FILE
    tls: str = TLS_DIR
    admin: str = ADMIN_SOCKET
    module: str = MODULE
    callback: str = proxy_callback.SOCKET


def sds_json(places: Places | None = None) -> str:
    """List the certificate, by the files that it lies in; they are read again when their folder's content is moved."""
    folder = (places or Places()).tls
    files = {"certificate_chain": {"filename": f"{folder}/tls.crt"}, "private_key": {"filename": f"{folder}/tls.key"}}
    kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
    secret = {"@type": kind, "name": CERTIFICATE, "tls_certificate": {**files, "watched_directory": {"path": folder}}}
    return json.dumps({"resources": [secret]}, indent=1) + "\n"


def bootstrap(
    host: str, limits: ProxyLimitsSpec, memory: int, places: Places | None = None, oidc: Oidc | None = None
) -> Config:
    """Configure the Envoy whose main host is *host*, and which has *memory* bytes."""
    at = places or Places()
    return {
        "node": {"id": names.PROXY, "cluster": names.PROJECT},
        "admin": {"address": {"pipe": {"path": at.admin, "mode": 0o600}}},
        "static_resources": {
            "listeners": [_https(host, limits, at, oidc), _plain(limits, at), _health(at)],
            "clusters": [
                _socket("admin", at.admin),
                _socket("routes", f"{at.routes}/{METRICS_SOCKET}"),
                *([_socket(proxy_callback.CALLBACK, at.callback), *proxy_oidc.clusters(oidc)] if oidc else ()),
            ],
        },
        "dynamic_resources": {"cds_config": watched(at.routes, CLUSTERS_FILE)},
        "overload_manager": overload(limits, memory),
    }


def envoy_json(host: str, limits: ProxyLimitsSpec, memory: int, places: Places, oidc: Oidc | None = None) -> str:
    """Write the configuration as the ConfigMap has it."""
    return json.dumps(bootstrap(host, limits, memory, places, oidc), indent=1) + "\n"


def _listener(name: str, at: Places, port: int, chain: Config, **more: Any) -> Config:
    said = {"address": at.address, "port_value": port, **({"ipv4_compat": True} if at.address == EVERY else {})}
    address = {"socket_address": said}
    limit = {"per_connection_buffer_limit_bytes": BUFFER_BYTES}
    unread = {"level": TCP, "name": TCP_USER_TIMEOUT, "int_value": UNREAD_SECONDS * 1000, "state": "STATE_LISTENING"}
    return {"name": name, "address": address, **limit, "socket_options": [unread], "filter_chains": [chain], **more}


def _manager(prefix: str, **said: Any) -> Config:
    kind = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    return {"filters": [typed("envoy.filters.network.http_connection_manager", kind, stat_prefix=prefix, **said)]}


def _https(host: str, limits: ProxyLimitsSpec, at: Places, oidc: Oidc | None) -> Config:
    chain = {
        **_manager(
            names.PROXY,
            rds={"route_config_name": ROUTE_CONFIG, "config_source": watched(at.routes, ROUTES_FILE)},
            http_filters=http_filters(host, limits, at.module, oidc),
            upgrade_configs=[{"upgrade_type": SOCKET}],
            local_reply_config=local_replies(issuer=oidc is not None),
            access_log=access_log(issuer=oidc is not None),
            http_protocol_options={"ignore_http_11_upgrade": [_matches(regex) for regex in _unlike(SOCKET)]},
            http2_protocol_options=_http2(),
            strip_trailing_host_dot=True,
            **_strict(),
        ),
        "transport_socket": _tls(at),
        "transport_socket_connect_timeout": f"{HEADER_SECONDS}s",
    }
    return with_shares(_listener("https", at, at.https, chain), limits, at.module)


def _strict() -> Config:
    """Believe nothing that a client says of itself, and refuse what two readers of HTTP may read differently."""
    return {
        "use_remote_address": True,
        "early_header_mutation_extensions": early_mutations(),
        "normalize_path": False,
        "merge_slashes": False,
        "path_with_escaped_slashes_action": "REJECT_REQUEST",
        "common_http_protocol_options": {
            "headers_with_underscores_action": "REJECT_REQUEST",
            "idle_timeout": f"{KEPT_SECONDS}s",
            "max_headers_count": HEADERS_COUNT,
        },
        "max_request_headers_kb": HEADERS_KB,
        "request_headers_timeout": f"{HEADER_SECONDS}s",
        "stream_idle_timeout": f"{IDLE_SECONDS}s",
        "stream_flush_timeout": f"{FLUSH_SECONDS}s",
        "server_name": names.PROJECT,
    }


def _unlike(word: str) -> list[str]:
    """Give expressions of which one matches whatever is not *word*, in any case: RE2 cannot say "not".

    Envoy answers an upgrade that it does not know before any filter has asked for a password, and differently where the
    host has a route. What it ignores is an ordinary request.
    """
    size = len(word)
    others = (f"(?is).{{{place}}}[^{letter}].{{{size - place - 1}}}" for place, letter in enumerate(word))
    return [f"(?s).{{0,{size - 1}}}", f"(?s).{{{size + 1},}}", *others]


def _matches(regex: str) -> Config:
    return {"safe_regex": {"regex": regex}}


def _http2() -> Config:
    """Bound what a client may have in hand, and offer no WebSocket by HTTP/2 (RFC 8441): browsers then use HTTP/1.1.

    A socket by HTTP/2 has no Sec-WebSocket-Key, Envoy makes none up, and programs such as Jupyter refuse what has none.
    """
    windows = {"initial_stream_window_size": 4 * BUFFER_BYTES, "initial_connection_window_size": CONNECTION_WINDOW}
    return {"max_concurrent_streams": STREAMS, **windows}


def _tls(at: Places) -> Config:
    folder, _, name = at.sds.rpartition("/")
    certificate = {"name": CERTIFICATE, "sds_config": watched(folder, name)}
    common = {
        "alpn_protocols": ["h2", "http/1.1"],
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
        "tls_certificate_sds_secret_configs": [certificate],
    }
    kind = "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"
    return typed("envoy.transport_sockets.tls", kind, common_tls_context=common)


def _plain(limits: ProxyLimitsSpec, at: Places) -> Config:
    """Send who comes without TLS to https, whatever the host: no password is asked for here."""
    everything = {"match": {"prefix": "/"}, "redirect": {"https_redirect": True, "response_code": "PERMANENT_REDIRECT"}}
    routes = {"name": "plain", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [everything]}]}
    # browsers speak no HTTP/2 without TLS, and by it one connection would be any number of requests
    chain = _manager("plain", codec_type="HTTP1", route_config=routes, http_filters=[router()], **_strict())
    return with_shares(_listener("plain", at, at.plain, chain), limits, at.module)


def _health(at: Places) -> Config:
    """Tell the kubelet, however many clients there are, and Prometheus."""
    ready = typed(
        "envoy.filters.http.health_check",
        "envoy.extensions.filters.http.health_check.v3.HealthCheck",
        pass_through_mode=False,
        headers=[{"name": ":path", "string_match": {"exact": "/healthz"}}],
    )
    alive = {"match": {"path": "/livez"}, "direct_response": {"status": 200}}
    told = {"cluster": "admin", "prefix_rewrite": "/stats/prometheus"}
    metrics = {"match": {"path": "/metrics"}, "route": told}
    theirs = {"match": {"path": "/metrics/routes"}, "route": {"cluster": "routes"}}
    routes = {
        "name": "health",
        "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [alive, metrics, theirs]}],
    }
    chain = _manager("health", route_config=routes, http_filters=[ready, router()])
    return _listener("health", at, at.health, chain, ignore_global_conn_limit=True)


def _socket(name: str, path: str) -> Config:
    """Give a cluster of one socket in the pod."""
    endpoint = {"endpoint": {"address": {"pipe": {"path": path}}}}
    return {"name": name, "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]}}
