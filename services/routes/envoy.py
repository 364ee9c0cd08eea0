"""From tenants to Envoy's words (API v3): one virtual host for each origin, one cluster for what stands behind it.

What comes in has been judged before (things.py), so that nothing here can be refused by Envoy: one refused route would
keep every other one from being taken.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from routes.claims import RBAC, admitted
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
"""Requests of one proxy to one browser, and those that wait: two proxies ask less than its memory is for."""

SMALLEST_PAGE = 4096
"""Bytes: what Envoy itself allows a direct response."""

NOT_FOUND = "not found\n"


def routes_json(tenants: Iterable[Tenant], site: Site) -> str:
    """Give the answer of route discovery: a virtual host for each storage, each web port and each tenant's index."""
    hosts = [host for tenant in tenants for host in _virtual_hosts(tenant, site)]
    largest = max((len(page) for host in hosts for page in _pages(host)), default=0)
    found = {
        "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        "name": ROUTES,
        "ignore_port_in_host_matching": True,
        "max_direct_response_body_size_bytes": max(SMALLEST_PAGE, largest),
        "virtual_hosts": hosts,
    }
    return _discovery([found])


def clusters_json(tenants: Iterable[Tenant]) -> str:
    """Give the answer of cluster discovery, with the addresses of pods in it: a stream stays when others change."""
    return _discovery([cluster for tenant in tenants for cluster in _clusters(tenant)])


def _discovery(resources: list[Json]) -> str:
    """Name the version by the content, so that what is the same is known to be."""
    text = json.dumps(resources, separators=(",", ":"))
    version = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f'{{"version_info":"{version}","resources":{text}}}\n'


def _pages(host: Json) -> Iterator[bytes]:
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
        yield {**_cluster(storage_cluster(tenant.namespace, storage), storage.endpoints), **AT_ONCE}
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
        "typed_per_filter_config": _people(tenant),
        "routes": routes,
    }


def _people(tenant: Tenant) -> Json:
    """Say to the filters of the proxy who may come in; to whom nothing is said, that one lets nobody in."""
    kind = "type.googleapis.com/envoy.extensions.filters.http.basic_auth.v3.BasicAuthPerRoute"
    users = {"@type": kind, "users": {"inline_string": tenant.htpasswd}}
    return {
        **({BASIC_AUTH: users} if tenant.htpasswd else {}),
        **({RBAC: admitted(tenant.claims)} if tenant.claims else {}),
    }


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
