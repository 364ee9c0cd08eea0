"""The tunnel tier: frps servers behind one entrance, and the gate that says who may announce which host."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pulumi
from pydantic import Field

from components import names, walls
from components.bundle import mount
from components.frp_config import PKI_DIR, frps_toml
from components.kube import SKIP_AWAIT, metadata, register
from components.model import Cidr, Host, Manifest, Model, Port, Resources
from policy.baseline import NAMESPACE_LABELS, PLATFORM_LABEL, POD_DEFAULTS, container_security, pod_security

PLATFORM_UID = 65532
"""The uid of our own images: nobody on the node, and not one that user images know."""

GATE_REPLICAS = 2
"""The gate refuses while it is away, so that it must not be away during a roll-out."""

FRPS_RESOURCES = Resources(cpu="500m", memory="256Mi")
GATE_RESOURCES = Resources(cpu="200m", memory="64Mi")

ENTRANCE = "ssh"
GATE = "gate"
CONFIG_DIR = "/config"
FINGERPRINT = f"{names.PROJECT}/inputs"
"""Pod annotation that changes with what the pod reads only at its start."""


class ServiceSpec(Model):
    """The entrance of SSH, never shared with browsers."""

    type: Literal["LoadBalancer", "NodePort", "ClusterIP"] = "LoadBalancer"
    annotations: dict[str, str] = Field(default={})
    node_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    source_ranges: tuple[Cidr, ...] = ()
    external_traffic_policy: Literal["Local", "Cluster"] = "Local"


class ConnectSpec(Model):
    """Where clients connect."""

    host: Host
    port: Port = names.CONNECT_PORT


class FrpSpec(Model):
    """SSH through frp: units dial out, so that they may sit behind any wall."""

    kind: Literal["frp"]
    domain_suffixes: Annotated[tuple[Host, ...], Field(min_length=1)]
    connect: ConnectSpec
    service: ServiceSpec = ServiceSpec()
    replicas: Annotated[int, Field(ge=1, le=9)] = 2


@dataclass(frozen=True)
class Tunnel:
    """The tunnel tier with everything around it resolved."""

    spec: FrpSpec
    owner: str
    frp_image: str
    gate_image: str
    dns: walls.DnsSpec

    @property
    def servers(self) -> list[tuple[str, str, int]]:
        """List name, address and port of each tunnel server, as units reach it."""
        indexes = range(self.spec.replicas)
        return [
            (names.frps(i), names.service_host(names.frps(i), names.PLATFORM_NAMESPACE), names.TUNNEL_PORT)
            for i in indexes
        ]

    def labels(self, component: str, instance: str) -> names.Labels:
        """Give the labels of one of the tier's objects."""
        return names.labels(owner=self.owner, component=component, instance=instance)


SERVER_NAME = f"frps.{names.PLATFORM_NAMESPACE}"
"""What every tunnel server proves to be; clients verify it."""

GATE_HOST = names.service_host(GATE, names.PLATFORM_NAMESPACE)


@dataclass(frozen=True)
class TunnelSecrets:
    """Files of the tier's two Secrets, and fingerprints of what each pod reads only at its start."""

    frps: Mapping[str, pulumi.Input[str]] = field(repr=False)
    """tls.crt, tls.key, ca.crt, token."""
    gate: Mapping[str, pulumi.Input[str]] = field(repr=False)
    """tls.crt, tls.key, key."""
    frps_fingerprint: str
    gate_fingerprint: str


def tunnel_manifests(tunnel: Tunnel, secrets: TunnelSecrets) -> dict[str, Manifest]:
    """Build the objects of the tier."""
    servers: dict[str, Manifest] = {}
    for index in range(tunnel.spec.replicas):
        servers[names.frps(index)] = _frps_deployment(tunnel, index, secrets.frps_fingerprint)
        servers[f"{names.frps(index)}-service"] = _frps_service(tunnel, index)
    platform = tunnel.labels("platform", names.PROJECT)
    return {
        "namespace": _namespace(platform),
        "default-deny": walls.default_deny(names.PLATFORM_NAMESPACE, platform),
        "service-account": _service_account(platform),
        "frps-policy": _frps_policy(tunnel),
        "gate-policy": _gate_policy(tunnel),
        "frps-config": _frps_config(tunnel),
        "frps-secret": _secret(tunnel, "frps", secrets.frps),
        "gate-secret": _secret(tunnel, GATE, secrets.gate),
        "gate": _gate_deployment(tunnel, secrets.gate_fingerprint),
        "gate-service": _service(tunnel, GATE, names.selector(GATE, GATE), names.GATE_PORT, GATE),
        "gate-budget": _budget(tunnel, GATE),
        "frps-budget": _budget(tunnel, "frps"),
        "entrance": _entrance(tunnel),
        **servers,
    }


def _namespace(labels: names.Labels) -> Manifest:
    key, value = PLATFORM_LABEL
    worn = {**labels, key: value, **NAMESPACE_LABELS}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(names.PLATFORM_NAMESPACE, None, worn)}


def _service_account(labels: names.Labels) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata("platform", names.PLATFORM_NAMESPACE, labels),
        "automountServiceAccountToken": False,
    }


def _secret(tunnel: Tunnel, component: str, files: Mapping[str, pulumi.Input[str]]) -> Manifest:
    meta = metadata(component, names.PLATFORM_NAMESPACE, tunnel.labels(component, component))
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "stringData": dict(files)}


def _frps_config(tunnel: Tunnel) -> Manifest:
    meta = metadata("frps", names.PLATFORM_NAMESPACE, tunnel.labels("frps", "frps"))
    data = {"frps.toml": frps_toml(f"https://{GATE_HOST}:{names.GATE_PORT}")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def _frps_policy(tunnel: Tunnel) -> Manifest:
    """Clients from the configured ranges come to CONNECT, units to the tunnel port; frps itself reaches the gate."""
    ranges = [{"ipBlock": {"cidr": cidr}} for cidr in tunnel.spec.service.source_ranges]
    clients: Manifest = {"ports": [{"protocol": "TCP", "port": names.CONNECT_PORT}]}
    units = {
        "from": [
            {
                "namespaceSelector": {"matchExpressions": [{"key": names.TENANT_LABEL, "operator": "Exists"}]},
                "podSelector": {"matchLabels": names.component_selector("unit")},
            }
        ],
        "ports": [{"protocol": "TCP", "port": names.TUNNEL_PORT}],
    }
    gate = {
        "to": [{"podSelector": {"matchLabels": names.component_selector(GATE)}}],
        "ports": [{"protocol": "TCP", "port": names.GATE_PORT}],
    }
    return walls.network_policy(
        "frps",
        names.PLATFORM_NAMESPACE,
        tunnel.labels("frps", "frps"),
        names.component_selector("frps"),
        ingress=[{"from": ranges, **clients} if ranges else clients, units],
        egress=[walls.dns_egress(tunnel.dns), gate],
    )


def _gate_policy(tunnel: Tunnel) -> Manifest:
    frps = {
        "from": [{"podSelector": {"matchLabels": names.component_selector("frps")}}],
        "ports": [{"protocol": "TCP", "port": names.GATE_PORT}],
    }
    labels = tunnel.labels(GATE, GATE)
    return walls.network_policy(
        GATE, names.PLATFORM_NAMESPACE, labels, names.component_selector(GATE), ingress=[frps], egress=[]
    )


def _deployment(labels: names.Labels, name: str, replicas: int, pod: Manifest, inputs: str) -> Manifest:
    pods = names.selector(labels["app.kubernetes.io/component"], labels["app.kubernetes.io/instance"])
    template = {"metadata": {"labels": dict(labels), "annotations": {FINGERPRINT: inputs}}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name, names.PLATFORM_NAMESPACE, labels),
        "spec": {"replicas": replicas, "selector": {"matchLabels": pods}, "template": template},
    }


def _pod(container: Manifest, volumes: list[Manifest]) -> Manifest:
    return {
        **POD_DEFAULTS,
        "serviceAccountName": "platform",
        "securityContext": pod_security(PLATFORM_UID, PLATFORM_UID),
        "containers": [container],
        "volumes": volumes,
    }


def _secret_volume(name: str, secret: str) -> Manifest:
    return {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}


def _frps_deployment(tunnel: Tunnel, index: int, inputs: str) -> Manifest:
    """One server: a Deployment of its own, so that its Service is a stable address and one rolls at a time."""
    container = {
        "name": "frps",
        "image": tunnel.frp_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/frps", "-c", f"{CONFIG_DIR}/frps.toml"],
        # Go trusts what this names; it is how frps verifies the gate
        "env": [{"name": "SSL_CERT_FILE", "value": f"{PKI_DIR}/ca.crt"}],
        "ports": [
            {"name": "tunnel", "containerPort": names.TUNNEL_PORT, "protocol": "TCP"},
            {"name": "connect", "containerPort": names.CONNECT_PORT, "protocol": "TCP"},
        ],
        "readinessProbe": {"tcpSocket": {"port": "connect"}, "periodSeconds": 2},
        "livenessProbe": {"tcpSocket": {"port": "connect"}, "periodSeconds": 10, "failureThreshold": 6},
        "resources": FRPS_RESOURCES.requirements(),
        "securityContext": container_security(),
        "volumeMounts": [mount("config", CONFIG_DIR, read_only=True), mount("pki", PKI_DIR, read_only=True)],
    }
    volumes = [{"name": "config", "configMap": {"name": "frps"}}, _secret_volume("pki", "frps")]
    name = names.frps(index)
    return _deployment(tunnel.labels("frps", name), name, 1, _pod(container, volumes), inputs)


def _gate_deployment(tunnel: Tunnel, inputs: str) -> Manifest:
    keys = "/keys"
    container = {
        "name": GATE,
        "image": tunnel.gate_image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            f"--listen=0.0.0.0:{names.GATE_PORT}",
            f"--key-file={keys}/key",
            f"--cert-file={keys}/tls.crt",
            f"--private-key-file={keys}/tls.key",
            f"--owner={tunnel.owner}",
        ],
        "ports": [{"name": GATE, "containerPort": names.GATE_PORT, "protocol": "TCP"}],
        "readinessProbe": {
            "httpGet": {"path": "/healthz", "port": GATE, "scheme": "HTTPS"},
            "periodSeconds": 2,
        },
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": GATE, "scheme": "HTTPS"}, "failureThreshold": 6},
        "resources": GATE_RESOURCES.requirements(),
        "securityContext": container_security(),
        "volumeMounts": [mount("keys", keys, read_only=True)],
    }
    pod = _pod(container, [_secret_volume("keys", GATE)])
    return _deployment(tunnel.labels(GATE, GATE), GATE, GATE_REPLICAS, pod, inputs)


def _service(tunnel: Tunnel, name: str, pods: names.Labels, port: int, component: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, names.PLATFORM_NAMESPACE, tunnel.labels(component, name), SKIP_AWAIT),
        "spec": {
            "type": "ClusterIP",
            "selector": pods,
            "ports": [{"name": "tls", "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }


def _frps_service(tunnel: Tunnel, index: int) -> Manifest:
    name = names.frps(index)
    return _service(tunnel, name, names.selector("frps", name), names.TUNNEL_PORT, "frps")


def _entrance(tunnel: Tunnel) -> Manifest:
    """Build the one Service that clients reach; every tunnel server answers behind it."""
    said = tunnel.spec.service
    port: Manifest = {"name": "connect", "port": names.CONNECT_PORT, "targetPort": "connect", "protocol": "TCP"}
    if said.node_port is not None:
        port["nodePort"] = said.node_port
    spec: Manifest = {"type": said.type, "selector": names.component_selector("frps"), "ports": [port]}
    if said.type != "ClusterIP":
        spec["externalTrafficPolicy"] = said.external_traffic_policy
    if said.type == "LoadBalancer" and said.source_ranges:
        spec["loadBalancerSourceRanges"] = list(said.source_ranges)
    meta = metadata(
        ENTRANCE, names.PLATFORM_NAMESPACE, tunnel.labels("frps", ENTRANCE), {**SKIP_AWAIT, **said.annotations}
    )
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def _budget(tunnel: Tunnel, component: str) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(component, names.PLATFORM_NAMESPACE, tunnel.labels(component, component)),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": names.component_selector(component)},
        },
    }


class TunnelTier(pulumi.ComponentResource):
    """The tunnel servers, their entrance and their gate."""

    def __init__(self, tunnel: Tunnel, secrets: TunnelSecrets, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs = {"namespace": names.PLATFORM_NAMESPACE}
        super().__init__(names.component_type("TunnelTier"), "tunnel", inputs, opts)
        manifests = tunnel_manifests(tunnel, secrets)
        namespace = register("tunnel", {"namespace": manifests.pop("namespace")}, parent=self)
        register("tunnel", manifests, parent=self, after=list(namespace.values()))
        self.register_outputs({"servers": [name for name, _, _ in tunnel.servers]})
