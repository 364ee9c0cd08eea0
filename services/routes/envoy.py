"""From tenants to Envoy's words (API v3): one virtual host for each origin, one cluster for what stands behind it.

What comes in has been judged before (things.py), so that nothing here can be refused by Envoy: one refused route would
keep every other one from being taken.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from routes.claims import RBAC, claims_weight, judge
from routes.hosts import Site, any_label, is_host, port_label, storage_label, storage_path
from routes.page import page
from routes.things import Address
from routes.view import Port, Storage, Tenant

Json = dict[str, Any]

ROUTES = "gpu-runtime"
"""Name of the one RouteConfiguration."""

BASIC_AUTH = "envoy.filters.http.basic_auth"
"""The filter of the proxy to which a virtual host says its users, as components/proxy_filters.py has it."""

READS = "GET|HEAD|OPTIONS|PROPFIND"
WRITES = "PUT|PATCH|MKCOL"
"""Methods that make files and folders; none that moves or removes one."""

CONNECT_SECONDS = "5s"
"""For a pod to take a connection: it runs, or nobody would send anything to it."""

KEEPALIVE = {"keepalive_time": 60, "keepalive_interval": 10, "keepalive_probes": 3}
"""Seconds, and questions: a pod whose node is gone is noticed, however long a stream may be silent."""

AT_ONCE = {"circuit_breakers": {"thresholds": [{"max_connections": 400, "max_pending_requests": 100}]}}
"""Requests of one proxy to one browser or port, and those that wait: two proxies ask less than a browser's memory is
for, and one user's downloads that nobody reads are a part of the proxy's."""

BUFFER_BYTES = 64 * 1024
"""Per connection to what is behind: what a slow reader keeps on that side, as components/proxy_config.py has it for the
other one. Unsaid, it would be a MiB."""

HEAVIEST = 8 * 1024 * 1024
"""Bytes of what one tenant says of its people, as a stack file may say it: the rest of the volume is for the others."""

SMALLEST_PAGE = 4096
"""Bytes: what Envoy itself allows a direct response."""

NOT_FOUND = "not found\n"


def routes_json(tenants: Sequence[Tenant], site: Site) -> str:
    """Give the answer of route discovery: a virtual host for each storage, each web port and each tenant's index.

    Each is text as soon as it is made: as objects they would take ten times as much memory, all at once.
    """
    hosts, largest = [], SMALLEST_PAGE
    for host in (host for tenant in tenants for host in _virtual_hosts(tenant, site)):
        hosts.append(_text(host))
        largest = max(largest, *map(len, _pages(host)))
    found = {
        "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        "name": ROUTES,
        "ignore_port_in_host_matching": True,
        "max_direct_response_body_size_bytes": largest,
        "typed_per_filter_config": _judged(tenants),
    }
    return _discovery([f'{_text(found)[:-1]},"virtual_hosts":[{",".join(hosts)}]}}'])


def weight(tenant: Tenant) -> int:
    """Give the bytes that a tenant's people take: users in each host, the index and what it has not included."""
    return (2 + len(tenant.storages) + len(tenant.ports)) * len(tenant.htpasswd) + claims_weight(tenant.claims)


def size(tenant: Tenant, site: Site) -> int:
    """Give the bytes that a tenant takes in both files, made and forgotten one host at a time."""
    parts = (*_clusters(tenant), *([_judged([tenant])] if tenant.claims else ()))
    hosts = sum(len(_text(host)) + 1 for host in _virtual_hosts(tenant, site))
    return hosts + sum(len(_text(part)) + 1 for part in parts)


def clusters_json(tenants: Iterable[Tenant]) -> str:
    """Give the answer of cluster discovery, with the addresses of pods in it: a stream stays when others change."""
    return _discovery([_text(cluster) for tenant in tenants for cluster in _clusters(tenant)])


def _judged(tenants: Sequence[Tenant]) -> Json:
    """Say whom an issuer may sign in, where any tenant admits one: the proxy need not have that filter."""
    people = [(tenant.namespace, tenant.claims) for tenant in tenants if tenant.claims]
    return {RBAC: judge(people)} if people else {}


def _text(resource: Json) -> str:
    return json.dumps(resource, separators=(",", ":"))


def _discovery(resources: Iterable[str]) -> str:
    """Name the version by the content, so that what is the same is known to be."""
    text = ",".join(resources)
    version = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f'{{"version_info":"{version}","resources":[{text}]}}\n'


def _pages(host: Json) -> Iterator[bytes]:
    yield b""
    for route in host["routes"]:
        yield route.get("direct_response", {}).get("body", {}).get("inline_string", "").encode()


def storage_cluster(namespace: str, storage: Storage) -> str:
    """Name the cluster of a storage's browser."""
    return f"storage/{namespace}/{storage.name}"


def port_cluster(namespace: str, port: Port) -> str:
    """Name the cluster of a unit's port."""
    return f"port/{namespace}/{port.unit}/{port.name}"


def _clusters(tenant: Tenant) -> Iterator[Json]:
    for storage in tenant.storages:
        yield _cluster(storage_cluster(tenant.namespace, storage), storage.endpoints)
    for port in tenant.ports:
        yield _cluster(port_cluster(tenant.namespace, port), port.endpoints)


def _cluster(name: str, addresses: Iterable[Address]) -> Json:
    endpoints = [
        {"endpoint": {"address": {"socket_address": {"address": one.ip, "port_value": one.port}}}} for one in addresses
    ]
    return {
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": name,
        "type": "STATIC",
        "connect_timeout": CONNECT_SECONDS,
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        **AT_ONCE,
        "upstream_connection_options": {"tcp_keepalive": KEEPALIVE},
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    }


def _virtual_hosts(tenant: Tenant, site: Site) -> Iterator[Json]:
    """Give what has a host; the others cannot be reached, and everybody else can."""
    if is_host(tenant.namespace):
        yield _virtual_host(tenant, site, tenant.namespace, list(_index(tenant, site)))
        # a host of its own wins: who signed in is told what there is not, and strangers are not told what there is
        yield _virtual_host(tenant, site, any_label(tenant.namespace), [_answer({"prefix": "/"}, 404, NOT_FOUND)])
    for storage in tenant.storages:
        label = storage_label(storage.name, tenant.namespace)
        if is_host(label):
            yield _virtual_host(tenant, site, label, list(_files(tenant.namespace, storage)))
    for port in tenant.ports:
        label = port_label(port.name, port.unit, tenant.namespace)
        if is_host(label):
            yield _virtual_host(tenant, site, label, [_web(tenant.namespace, port)])


def _virtual_host(tenant: Tenant, site: Site, label: str, routes: list[Json]) -> Json:
    return {
        "name": label,
        "domains": [site.domain(label)],
        "typed_per_filter_config": _users(tenant),
        "routes": routes,
    }


def _users(tenant: Tenant) -> Json:
    """Say who has a password to the filter of the proxy; to whom nothing is said, that one lets nobody in."""
    kind = "type.googleapis.com/envoy.extensions.filters.http.basic_auth.v3.BasicAuthPerRoute"
    return {BASIC_AUTH: {"@type": kind, "users": {"inline_string": tenant.htpasswd}}} if tenant.htpasswd else {}


def _index(tenant: Tenant, site: Site) -> Iterator[Json]:
    """Answer with the page itself, so that it is there as long as the proxy is."""
    text = page(tenant, site)
    tag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    headers = [_header("etag", tag), _header("cache-control", "private, no-cache")]
    known = {"name": "if-none-match", "string_match": {"contains": tag}}
    reads = _method("GET|HEAD")
    yield _answer({"path": "/", "headers": [reads, known]}, 304, "", headers)
    yield _answer({"path": "/", "headers": [reads]}, 200, text, [*headers, _header("content-type", HTML)])
    yield _answer({"path": "/"}, 405, "", [_header("allow", "GET, HEAD")])
    yield _answer({"prefix": "/"}, 404, NOT_FOUND)


HTML = "text/html; charset=utf-8"


def _files(namespace: str, storage: Storage) -> Iterator[Json]:
    """Lead to a storage's browser: whole segments of its path, methods that it needs, uploads that may fit."""
    path, cluster = storage_path(storage.name, namespace), storage_cluster(namespace, storage)
    yield _answer({"prefix": "/", "headers": [{"name": "upgrade", "present_match": True}]}, 403, "")
    yield {"match": {"path": "/"}, "redirect": {"path_redirect": f"{path}/", "response_code": "FOUND"}}
    if storage.upload is not None:
        yield from _refused_uploads(path, storage.upload)
        yield _answer({"path_separated_prefix": path, "headers": [_method("PATCH"), _beside_the_end()]}, 403, "")
    methods = READS if storage.upload is None else f"{READS}|{WRITES}"
    yield {
        "match": {"path_separated_prefix": path, "headers": [_method(methods)]},
        "route": {"cluster": cluster, "timeout": "0s"},
    }
    allow = _header("allow", methods.replace("|", ", "))
    yield _answer({"path_separated_prefix": path}, 405, "", [allow])
    yield _answer({"prefix": "/"}, 404, NOT_FOUND)


def _refused_uploads(path: str, limit: int) -> Iterator[Json]:
    """Refuse what is larger than *limit* before a byte of it is read, and what does not say how large it is."""
    said, unsaid = ({"name": "content-length", "present_match": present} for present in (True, False))
    within = {"name": "content-length", "range_match": {"start": "0", "end": str(limit + 1)}}
    beyond = [said, {**within, "invert_match": True}]
    yield _answer({"path_separated_prefix": path, "headers": [_method(WRITES), *beyond]}, 413, "")
    yield _answer({"path_separated_prefix": path, "headers": [_method("PUT|PATCH"), unsaid]}, 411, "")


def _beside_the_end() -> Json:
    """Match a PATCH that does not append: dufs would write it over what is there."""
    append = {"string_match": {"exact": "append"}, "invert_match": True, "treat_missing_header_as_empty": True}
    return {"name": "x-update-range", **append}


def _web(namespace: str, port: Port) -> Json:
    """Lead to a unit's port: every path and method, WebSockets too."""
    route = {"cluster": port_cluster(namespace, port), "timeout": "0s"}
    return {"match": {"prefix": "/"}, "route": route}


def _method(methods: str) -> Json:
    return {"name": ":method", "string_match": {"safe_regex": {"regex": methods}}}


def _answer(match: Json, status: int, body: str, headers: Iterable[Json] = ()) -> Json:
    said = {"status": status, **({"body": {"inline_string": body}} if body else {})}
    return {"match": match, "direct_response": said, "response_headers_to_add": list(headers)}


def _header(name: str, value: str) -> Json:
    return {"header": {"key": name, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
