"""What the proxy does before its memory or its connections are used up."""

from components.envoy import Config, typed
from components.proxy_spec import ProxyLimitsSpec

HEAP_SHARE = 0.8
"""Of the container's memory: beyond, connections are refused; threads and binary need the rest."""


def overload(limits: ProxyLimitsSpec, memory: int) -> Config:
    """Refuse connections before the kernel ends the process, and with it every download."""
    heap = typed(
        "envoy.resource_monitors.fixed_heap",
        "envoy.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig",
        max_heap_size_bytes=int(memory * HEAP_SHARE),
    )
    connections = typed(
        "envoy.resource_monitors.global_downstream_max_connections",
        "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
        max_active_downstream_connections=limits.connections,
    )
    return {
        "refresh_interval": "0.25s",
        "resource_monitors": [heap, connections],
        "actions": [_action("shrink_heap", 0.85), _action("stop_accepting_requests", 0.95)],
    }


def _action(name: str, share: float) -> Config:
    trigger = {"name": "envoy.resource_monitors.fixed_heap", "threshold": {"value": share}}
    return {"name": f"envoy.overload_actions.{name}", "triggers": [trigger]}
