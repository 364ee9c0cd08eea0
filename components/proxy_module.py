"""What a module of ours limits in Envoy, whose own filters count all clients, or each storage and port, alone.

The module (services/proxy/limits) judges who comes before a connection is made of it, and counts the connections and
requests of each source and the requests of each tenant that are open; the listeners that have it count together.
"""

from components.envoy import Config, typed
from components.proxy_spec import ProxyLimitsSpec

MODULE = "/usr/lib/gpu-runtime/limits.so"
"""In the image."""

SOURCES, TENANTS = "gpu-runtime.sources", "gpu-runtime.tenants"
KINDS = "envoy.extensions.filters"

METRICS = "gpu_runtime_sources"
"""Begins the name of the metric that tells how many connections were refused."""


def with_shares(listener: Config, limits: ProxyLimitsSpec, module: str) -> Config:
    """Give *listener* with the *limits* of each source: who is beyond them is closed before anything is read."""
    said = _said(module, f"{limits.of_source} {limits.new_connections_per_source}")
    judge = typed(SOURCES, f"{KINDS}.listener.dynamic_modules.v3.DynamicModuleListenerFilter", **said)
    count = typed(SOURCES, f"{KINDS}.network.dynamic_modules.v3.DynamicModuleNetworkFilter", **said)
    chains = [{**chain, "filters": [count, *chain["filters"]]} for chain in listener["filter_chains"]]
    return {**listener, "listener_filters": [judge], "filter_chains": chains}


def sources_share(limits: ProxyLimitsSpec, module: str) -> Config:
    """Give the filter that resets requests of a source that has too many open; for before all others.

    A client that takes no answer keeps even a refusal in the proxy's memory, some 26 KiB by HTTP/2.
    """
    return _counted(SOURCES, module, limits.requests_of_source)


def tenants_share(limits: ProxyLimitsSpec, module: str) -> Config:
    """Give the filter that answers 429 where a tenant has too much open; for behind those that judge passwords."""
    return _counted(TENANTS, module, limits.open_per_tenant)


def _counted(name: str, module: str, most: int) -> Config:
    said = _said(module, str(most), name.rpartition(".")[2])
    return typed(name, f"{KINDS}.http.dynamic_modules.v3.DynamicModuleFilter", **said)


def _said(module: str, numbers: str, kind: str = "sources") -> Config:
    """Tell the module its *numbers* for a *kind* of filter, in its own words."""
    text = {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": numbers}
    # never unloaded: what it has counted is its own
    where = {"module": {"local": {"filename": module}}, "do_not_close": True, "metrics_namespace": METRICS}
    return {"dynamic_module_config": where, "filter_name": kind, "filter_config": text}
