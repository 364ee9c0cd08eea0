"""How Envoy limits the connections of each source: by a module of ours, since its own filters count all together.

The module (services/proxy/sources) judges who comes before a connection is made of it, and counts what is open; the
listeners that have it count together.
"""

from components.envoy import Config, typed
from components.proxy_spec import ProxyLimitsSpec

MODULE = "/usr/lib/gpu-runtime/sources.so"
"""In the image."""

NAME = "gpu-runtime.sources"
KINDS = "envoy.extensions.filters"

METRICS = "gpu_runtime_sources"
"""Begins the name of the metric that tells how many connections were refused."""


def with_shares(listener: Config, limits: ProxyLimitsSpec, module: str) -> Config:
    """Give *listener* with the *limits* of each source: who is beyond them is closed before anything is read."""
    said = _said(limits, module)
    judge = typed(NAME, f"{KINDS}.listener.dynamic_modules.v3.DynamicModuleListenerFilter", **said)
    count = typed(NAME, f"{KINDS}.network.dynamic_modules.v3.DynamicModuleNetworkFilter", **said)
    chains = [{**chain, "filters": [count, *chain["filters"]]} for chain in listener["filter_chains"]]
    return {**listener, "listener_filters": [judge], "filter_chains": chains}


def _said(limits: ProxyLimitsSpec, module: str) -> Config:
    """Tell the module its two numbers, in its own words: "<open at once> <new ones a second>"."""
    numbers = f"{limits.of_source} {limits.new_connections_per_source}"
    text = {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": numbers}
    # never unloaded: what it has counted is its own
    where = {"module": {"local": {"filename": module}}, "do_not_close": True, "metrics_namespace": METRICS}
    return {"dynamic_module_config": where, "filter_name": "sources", "filter_config": text}
