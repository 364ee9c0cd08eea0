"""The proxy: Envoy in front of storages' browsers and units' web ports, with a password from the first byte on.

Beside each Envoy runs `routes` (components/routes.py), which writes what leads where; Envoy starts once that is there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from components import names, platform, walls
from components.bundle import mount
from components.derive import fingerprint
from components.dns import DnsSpec
from components.entry import entry_service, spread
from components.flows import PROXY, Admitted, ApiServers, Flow, proxy_flows
from components.kube import metadata, register
from components.metrics import MetricsSpec, metrics_flows
from components.model import Manifest, bytes_of, requirements
from components.oidc_files import OIDC_DIR
from components.oidc_flows import issuer_flows
from components.proxy_answers import LOG_FLAGS
from components.proxy_callback import callback_container, callback_volumes, socket_mount
from components.proxy_config import ADMIN_SOCKET, EVERY, EVERY_IPV4, TLS_DIR, Places, envoy_json, sds_json
from components.proxy_oidc import Oidc
from components.proxy_spec import CertManagerTls, DerivedTls, ProxySpec, SecretTls, url
from components.routes import ROUTES_DIR, Routes, access_namespace, routes_container, routes_manifests, routes_volumes
from components.unit_spec import seconds
from policy.baseline import container_security

REPLICAS = 2

CONFIG_DIR = "/config"
SECRET = "proxy-tls"  # noqa: S105 - a name
"""Holds the certificate, where the stack makes it or cert-manager does."""

OIDC_SECRET = "proxy-oidc"  # noqa: S105 - a name
"""Holds what the proxy proves itself to an issuer with, and what it seals sessions with."""

MEMORY = "1Gi"
RESOURCES = requirements({"cpu": "100m", "memory": "128Mi"}, {"cpu": "2", "memory": MEMORY})
"""Every byte of every download passes here; what Envoy keeps of it is bounded (proxy_config.py)."""

THREADS = 2
"""As many as CPUs: Envoy would start one for each of the node's."""

FLAGS = ("--concurrency", str(THREADS), *LOG_FLAGS, "--file-flush-interval-msec", "1000")
"""Envoy keeps its access log to itself for 10 s, if not told otherwise: long for who looks, and lost with a crash."""

GRACE_SECONDS = 10
"""Go on whatever is in hand: a busy cluster needs some seconds to send clients elsewhere."""

END_SECONDS = 30
"""Beside the drain: for Envoy and the container beside it to end."""

START_SECONDS = 300


@dataclass(frozen=True)
class Proxy:
    """The proxy with everything around it resolved."""

    spec: ProxySpec
    owner: str
    image: str
    routes: Routes
    api: ApiServers
    shown: tuple[Flow, ...] = ()
    """Rows of the stack's own units that begin here."""
    dns: DnsSpec = field(default_factory=DnsSpec)
    """Where the proxy finds an issuer, if there is one; else it asks nobody."""
    alone: bool = False
    """True: the stack has no tunnel servers, so that the platform's namespace is the proxy's to make."""
    metrics: MetricsSpec | None = None


@dataclass(frozen=True)
class ProxySecrets:
    """What lies in Secrets, as files."""

    tls: Mapping[str, pulumi.Input[str]] = field(repr=False)
    """Certificate (tls.crt) and key (tls.key); empty where the stack does not make them."""
    oidc: Mapping[str, pulumi.Input[str]] = field(repr=False, default_factory=dict)
    """Those of oidc_files.py; empty without an issuer."""


def proxy_manifests(proxy: Proxy, secrets: ProxySecrets) -> dict[str, Manifest]:
    """Build the objects of the proxy."""
    owner, worn = proxy.owner, _labels(proxy)
    ports = (("https", 443), ("http", 80))
    return {
        **(_home(proxy) if proxy.alone else {}),
        **access_namespace(owner),
        **routes_manifests(proxy.routes),
        **_walls(proxy),
        "config": _config(proxy),
        **_certificate(proxy, secrets),
        **_oidc_secret(proxy, secrets),
        "budget": platform.budget(owner, names.PROXY),
        "service": entry_service(worn, names.PROXY, proxy.spec.service, ports),
        "deployment": _deployment(proxy),
    }


def _home(proxy: Proxy) -> dict[str, Manifest]:
    """Make the platform's namespace, closed; elsewhere it comes with the tunnel servers."""
    closed = walls.default_deny(names.PLATFORM_NAMESPACE, _labels(proxy))
    return {"namespace": platform.namespace(proxy.owner), "default-deny": closed}


def rows_of_proxy(proxy: Proxy) -> list[Flow]:
    """Give the proxy's rows of the table of flows."""
    admitted = Admitted(proxy.routes.owners[1:], proxy.spec.ports)
    issuer = proxy.spec.oidc
    asked = issuer_flows(proxy.dns, issuer.cidrs, sorted({port for _, port in issuer.servers})) if issuer else []
    read = metrics_flows(proxy.metrics, PROXY, names.PROXY_HEALTH_PORT)
    return [*proxy_flows(proxy.spec.service.source_ranges, proxy.api, admitted), *asked, *proxy.shown, *read]


def _labels(proxy: Proxy) -> names.Labels:
    return platform.labels(proxy.owner, names.PROXY, names.PROXY)


def _walls(proxy: Proxy) -> dict[str, Manifest]:
    made = walls.policies(names.PLATFORM_NAMESPACE, _labels(proxy), rows_of_proxy(proxy))
    return {f"{name}-policy": policy for name, policy in made.items()}


def _files(proxy: Proxy) -> dict[str, str]:
    spec = proxy.spec
    oidc = Oidc(spec.oidc, spec.host, spec.port) if spec.oidc else None
    places = Places(EVERY if any(":" in cidr for cidr in proxy.routes.pods) else EVERY_IPV4)
    return {
        "envoy.json": envoy_json(spec.host, spec.limits, bytes_of(MEMORY), places, oidc),
        "sds.json": sds_json(),
    }


def _config(proxy: Proxy) -> Manifest:
    meta = metadata(names.PROXY, names.PLATFORM_NAMESPACE, _labels(proxy))
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": _files(proxy)}


def _certificate(proxy: Proxy, secrets: ProxySecrets) -> dict[str, Manifest]:
    """Make the Secret, or have cert-manager make it; nothing where it is given."""
    meta, tls = metadata(SECRET, names.PLATFORM_NAMESPACE, _labels(proxy)), proxy.spec.tls
    if isinstance(tls, DerivedTls):
        made = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "kubernetes.io/tls"}
        return {"certificate": {**made, "stringData": dict(secrets.tls)}}
    if isinstance(tls, CertManagerTls):
        issuer = {"name": tls.issuer.name, "kind": tls.issuer.kind}
        asked = {"secretName": SECRET, "dnsNames": hosts(proxy.spec), "issuerRef": issuer}
        return {
            "certificate": {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": meta, "spec": asked}
        }
    return {}


def _oidc_secret(proxy: Proxy, secrets: ProxySecrets) -> dict[str, Manifest]:
    if proxy.spec.oidc is None:
        return {}
    meta = metadata(OIDC_SECRET, names.PLATFORM_NAMESPACE, _labels(proxy))
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "stringData": dict(secrets.oidc)}
    return {"oidc": made}


def hosts(spec: ProxySpec) -> list[str]:
    """Name all that the certificate is for: the main host, and one label below it."""
    return [spec.host, f"*.{spec.host}"]


def _secret_name(proxy: Proxy) -> str:
    return proxy.spec.tls.name if isinstance(proxy.spec.tls, SecretTls) else SECRET


def _deployment(proxy: Proxy) -> Manifest:
    volumes = [
        {"name": "config", "configMap": {"name": names.PROXY}},
        platform.secret_volume("tls", _secret_name(proxy)),
        {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        *routes_volumes(),
        *([platform.secret_volume("oidc", OIDC_SECRET), *callback_volumes(OIDC_SECRET)] if proxy.spec.oidc else ()),
    ]
    read_at_start = fingerprint(_files(proxy)["envoy.json"])
    return platform.deployment(
        _labels(proxy),
        REPLICAS,
        _container(proxy),
        volumes,
        read_at_start,
        serviceAccountName=names.PROXY,
        initContainers=[
            routes_container(proxy.routes),
            *([callback_container(proxy.image)] if proxy.spec.oidc else ()),
        ],
        terminationGracePeriodSeconds=seconds(proxy.spec.drain) + END_SECONDS,
        topologySpreadConstraints=[spread(names.PROXY)],
    )


def _container(proxy: Proxy) -> Manifest:
    """Run Envoy; before its end it waits for what it has in hand, and clients go elsewhere meanwhile."""
    drain = ["python3", "-P", "-s", "-m", names.PROXY, f"--admin={ADMIN_SOCKET}", f"--grace={GRACE_SECONDS}"]
    waited = {"exec": {"command": [*drain, f"--seconds={seconds(proxy.spec.drain)}"]}}
    ports = {"https": names.PROXY_PORT, "http": names.PROXY_PLAIN_PORT, "health": names.PROXY_HEALTH_PORT}
    return {
        "name": "envoy",
        "image": proxy.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-c", f"{CONFIG_DIR}/envoy.json", *FLAGS],
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()],
        "lifecycle": {"preStop": waited},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 2},
        "livenessProbe": {"httpGet": {"path": "/livez", "port": "health"}, **platform.LIVENESS},
        "resources": RESOURCES,
        "securityContext": container_security(),
        "volumeMounts": [
            mount("config", CONFIG_DIR, read_only=True),
            mount("tls", TLS_DIR, read_only=True),
            mount("run", ADMIN_SOCKET.rpartition("/")[0]),
            mount("routes", ROUTES_DIR, read_only=True),
            *([mount("oidc", OIDC_DIR, read_only=True), socket_mount()] if proxy.spec.oidc else ()),
        ],
    }


class AccessProxy(pulumi.ComponentResource):
    """The proxy in front of everything that a browser reaches."""

    def __init__(self, proxy: Proxy, secrets: ProxySecrets, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(names.component_type("AccessProxy"), names.PROXY, {"host": proxy.spec.host}, opts)
        manifests = proxy_manifests(proxy, secrets)
        first: dict[str, Manifest] = {
            role: manifests.pop(role) for role in ("namespace", "access-namespace") if role in manifests
        }
        namespace = list(register(names.PROXY, first, parent=self).values())
        last = {"deployment": manifests.pop("deployment")}
        made = register(names.PROXY, manifests, parent=self, after=namespace)
        wait = f"{seconds(proxy.spec.drain) + START_SECONDS}s"
        options = pulumi.ResourceOptions(
            custom_timeouts=pulumi.CustomTimeouts(create=wait, update=wait, delete=wait),
        )
        register(names.PROXY, last, parent=self, after=list(made.values()), options={"deployment": options})
        self.register_outputs({"url": url(proxy.spec.host, proxy.spec.port)})
