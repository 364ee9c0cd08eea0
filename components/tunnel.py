"""The tunnel tier: frps servers behind one entrance, and the gate that they ask."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pulumi
from pydantic import Field

from components import gate, names, platform, walls
from components.bundle import mount
from components.dns import DnsSpec
from components.flows import Flow, platform_flows
from components.frp_config import PKI_DIR, frps_toml
from components.kube import SKIP_AWAIT, metadata, register
from components.model import Cidr, Host, Manifest, Model, Port, requirements
from components.tunnel_server import ServerSpec
from policy.baseline import container_security

FRPS = "frps"
FRPS_RESOURCES = requirements({"cpu": "100m", "memory": "64Mi"}, {"cpu": "2", "memory": "512Mi"})
"""Every byte of every session passes here; memory is bounded because frps grows with lost clients (frp issue 4802)."""


ENTRANCE = "ssh"
"""The Service that clients reach."""

CONFIG_DIR = "/config"

SERVER_NAME = f"{FRPS}.{names.PLATFORM_NAMESPACE}"
"""What every tunnel server proves to be; tunnel clients verify it."""


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
    server: ServerSpec | None = None
    """Given: the tunnel servers are elsewhere, and this stack makes none."""

    @property
    def servers(self) -> list[tuple[str, str, int]]:
        """List name, address and port of each tunnel server, as units reach it."""
        if self.server:
            return [("server", self.server.address, self.server.port)]
        made = [names.frps(index) for index in range(self.replicas)]
        return [(name, names.service_host(name, names.PLATFORM_NAMESPACE), names.TUNNEL_PORT) for name in made]


@dataclass(frozen=True)
class Tunnel:
    """The tunnel tier with everything around it resolved."""

    spec: FrpSpec
    owner: str
    frp_image: str
    gate_image: str
    dns: DnsSpec
    admits: tuple[str, ...] = ()
    """Owners of further stacks whose units may announce their hosts here."""

    @property
    def servers(self) -> list[tuple[str, str, int]]:
        """List name, address and port of each tunnel server, as units reach it."""
        return self.spec.servers


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
    owner = tunnel.owner
    return {
        "namespace": platform.namespace(owner),
        "service-account": platform.service_account(owner),
        **_walls(tunnel),
        "frps-config": _config(owner),
        "frps-secret": platform.secret(owner, FRPS, secrets.frps),
        "frps-budget": platform.budget(owner, FRPS),
        "entrance": _entrance(tunnel),
        **gate.gate_manifests((owner, *tunnel.admits), tunnel.gate_image, secrets.gate, secrets.gate_fingerprint),
        **_servers(tunnel, secrets.frps_fingerprint),
    }


def _config(owner: str) -> Manifest:
    meta = metadata(FRPS, names.PLATFORM_NAMESPACE, platform.labels(owner, FRPS, FRPS))
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"frps.toml": frps_toml(gate.URL)}}


def rows_of_tunnel(tunnel: Tunnel) -> list[Flow]:
    """Give the platform's rows of the table of flows."""
    return platform_flows(tunnel.spec.service.source_ranges, tunnel.dns)


def _walls(tunnel: Tunnel) -> dict[str, Manifest]:
    """Close the namespace, and open what the table says of its pods."""
    worn = platform.labels(tunnel.owner, "platform", names.PROJECT)
    made = walls.policies(names.PLATFORM_NAMESPACE, worn, rows_of_tunnel(tunnel))
    opened = {f"{name}-policy": policy for name, policy in made.items()}
    return {"default-deny": walls.default_deny(names.PLATFORM_NAMESPACE, worn), **opened}


def _servers(tunnel: Tunnel, fingerprint: str) -> dict[str, Manifest]:
    """Give each server a Deployment and a Service of its own: a stable address, and one rolls at a time."""
    volumes = [{"name": "config", "configMap": {"name": FRPS}}, platform.secret_volume("pki", FRPS)]
    container = _container(tunnel.frp_image)
    made: dict[str, Manifest] = {}
    for name, _, port in tunnel.servers:
        worn = platform.labels(tunnel.owner, FRPS, name)
        made[name] = platform.deployment(worn, 1, container, volumes, fingerprint)
        made[f"{name}-service"] = platform.service(worn, port)
    return made


def _container(image: str) -> Manifest:
    return {
        "name": FRPS,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/frps", "-c", f"{CONFIG_DIR}/frps.toml"],
        # Go trusts what these name, and nothing else: so frps verifies the gate
        "env": [
            {"name": "SSL_CERT_FILE", "value": f"{PKI_DIR}/ca.crt"},
            {"name": "SSL_CERT_DIR", "value": "/nonexistent"},
        ],
        "ports": [
            {"name": "tunnel", "containerPort": names.TUNNEL_PORT, "protocol": "TCP"},
            {"name": "connect", "containerPort": names.CONNECT_PORT, "protocol": "TCP"},
        ],
        "readinessProbe": {"tcpSocket": {"port": "connect"}, "periodSeconds": 2},
        "livenessProbe": {"tcpSocket": {"port": "connect"}, "periodSeconds": 10, "failureThreshold": 6},
        "resources": FRPS_RESOURCES,
        "securityContext": container_security(),
        "volumeMounts": [mount("config", CONFIG_DIR, read_only=True), mount("pki", PKI_DIR, read_only=True)],
    }


def _entrance(tunnel: Tunnel) -> Manifest:
    """Build the one Service that clients reach; every tunnel server answers behind it."""
    said = tunnel.spec.service
    port: Manifest = {"name": "connect", "port": names.CONNECT_PORT, "targetPort": "connect", "protocol": "TCP"}
    if said.node_port is not None:
        port["nodePort"] = said.node_port
    spec: Manifest = {"type": said.type, "selector": names.component_selector(FRPS), "ports": [port]}
    if said.type != "ClusterIP":
        spec["externalTrafficPolicy"] = said.external_traffic_policy
    if said.type == "LoadBalancer" and said.source_ranges:
        spec["loadBalancerSourceRanges"] = list(said.source_ranges)
    worn = platform.labels(tunnel.owner, FRPS, ENTRANCE)
    meta = metadata(ENTRANCE, names.PLATFORM_NAMESPACE, worn, {**SKIP_AWAIT, **said.annotations})
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


class TunnelTier(pulumi.ComponentResource):
    """The tunnel servers, their entrance and their gate."""

    def __init__(self, tunnel: Tunnel, secrets: TunnelSecrets, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs = {"namespace": names.PLATFORM_NAMESPACE}
        super().__init__(names.component_type("TunnelTier"), "tunnel", inputs, opts)
        manifests = tunnel_manifests(tunnel, secrets)
        namespace = register("tunnel", {"namespace": manifests.pop("namespace")}, parent=self)
        register("tunnel", manifests, parent=self, after=list(namespace.values()))
        self.register_outputs({"servers": [name for name, _, _ in tunnel.servers]})
