"""The tunnel tier: frps servers behind one entrance, and the gate that they ask."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pulumi
from pydantic import Field, StrictBool

from components import gate, names, platform, tunnel_door, walls
from components.derive import fingerprint
from components.entrance import CONFIG_FILE, SERVERS_FILE, servers_json
from components.entrance_config import LimitsSpec, haproxy_cfg
from components.entry import Drain, ServiceSpec, entry_service
from components.flows import GATE, ApiServers, Flow, platform_flows
from components.frp_config import frps_toml
from components.frps_pod import FRPS, server_deployment, server_service
from components.keys_now import told_by
from components.kube import metadata, register
from components.metrics import MetricsSpec, metrics_flows
from components.model import Host, Manifest, Model, Port, Whole
from components.roll import say_roll
from components.tunnel_door import door_cfg
from components.tunnel_server import ServerSpec
from components.unit_spec import seconds

ENTRANCE = "ssh"
"""The Service that clients reach."""

START_SECONDS = 300
"""For a tunnel server to be ready, beside its drain; `up` gives up after both."""

SERVER_NAME = f"{FRPS}.{names.PLATFORM_NAMESPACE}"
"""What every tunnel server proves to be; tunnel clients verify it."""


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
    replicas: Annotated[Whole, Field(ge=1, le=9)] = 2
    drain: Drain = "5m"
    """How long sessions may go on through a tunnel server that is being replaced."""
    limits: LimitsSpec = LimitsSpec()
    server: ServerSpec | None = None
    """Given: the tunnel servers are elsewhere, and this stack makes none."""
    remote_forwarding: StrictBool = False
    """True: clients may open ports in their units that lead to the clients' own networks (ssh -R)."""

    @property
    def gated(self) -> bool:
        """Say whether a gate of ours admits the units, here or elsewhere."""
        return self.server is None or self.server.gate

    @property
    def tcp_mux(self) -> bool:
        """Say whether the servers carry all sessions of a unit in one connection; ours do not."""
        return self.server.tcp_mux if self.server else False

    @property
    def servers(self) -> list[tuple[str, str, int]]:
        """List name, address and port of each tunnel server, as units reach it."""
        if self.server:
            return [("server", self.server.address, self.server.port)]
        made = [names.frps(index) for index in range(self.replicas)]
        return [(name, names.service_host(name, names.PLATFORM_NAMESPACE), names.TUNNEL_PORT) for name in made]


@dataclass(frozen=True)
class TierImages:
    """What the tier runs."""

    entrance: str
    frp: str
    gate: str


@dataclass(frozen=True)
class Tunnel:
    """The tunnel tier with everything around it resolved."""

    spec: FrpSpec
    owner: str
    images: TierImages
    api: ApiServers
    admits: tuple[str, ...] = ()
    """Owners of further stacks whose units may announce their hosts here."""
    metrics: MetricsSpec | None = None

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
    """tls.crt, tls.key, key, bandwidth."""
    frps_fingerprint: str
    gate_fingerprint: str


Addresses = Mapping[str, pulumi.Input[str]]
"""Cluster addresses of the tier's Services inside the cluster, by name: who has them needs no DNS."""


def tunnel_services(tunnel: Tunnel) -> dict[str, Manifest]:
    """Build the Services by which the tier's own pods find each other, and units their servers."""
    made = {f"{name}-service": server_service(_worn(tunnel, name)) for name, _, _ in tunnel.servers}
    return {"gate-service": gate.gate_service(tunnel.owner), **made}


def tunnel_manifests(tunnel: Tunnel, secrets: TunnelSecrets, addresses: Addresses) -> dict[str, Manifest]:
    """Build the objects of the tier; *addresses* are those of the gate and of each server."""
    owner = tunnel.owner
    return {
        "namespace": platform.namespace(owner),
        "service-account": platform.service_account(owner),
        **_walls(tunnel),
        "frps-config": _config(tunnel, addresses),
        "frps-secret": platform.secret(owner, FRPS, secrets.frps),
        "frps-budget": platform.budget(owner, FRPS),
        "entrance": entry_service(
            platform.labels(owner, FRPS, ENTRANCE), FRPS, tunnel.spec.service, (("connect", names.CONNECT_PORT),)
        ),
        **gate.gate_manifests((owner, *tunnel.admits), tunnel.images.gate, secrets.gate, secrets.gate_fingerprint),
        **tunnel_services(tunnel),
        **_servers(tunnel, secrets.frps_fingerprint, addresses[gate.GATE]),
    }


def _read_at_start(tunnel: Tunnel) -> dict[str, str]:
    """Give the files that a server reads only when it starts, so that another content rolls it."""
    cfg = haproxy_cfg(tunnel.spec.limits, seconds(tunnel.spec.drain))
    door = door_cfg(tunnel.spec.limits)
    return {"frps.toml": frps_toml(gate.URL), CONFIG_FILE: cfg, tunnel_door.CONFIG_FILE: door}


def _config(tunnel: Tunnel, addresses: Addresses) -> Manifest:
    meta = metadata(FRPS, names.PLATFORM_NAMESPACE, platform.labels(tunnel.owner, FRPS, FRPS))
    at = {name: addresses[name] for name, _, _ in tunnel.servers}
    plain = {name: address for name, address in at.items() if isinstance(address, str)}
    listed = servers_json(plain) if plain == at else pulumi.Output.all(**at).apply(servers_json)
    data = {**_read_at_start(tunnel), SERVERS_FILE: listed}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def rows_of_tunnel(tunnel: Tunnel) -> list[Flow]:
    """Give the platform's rows of the table of flows."""
    read = metrics_flows(tunnel.metrics, GATE, names.GATE_METRICS_PORT)
    return [*platform_flows(tunnel.spec.service.source_ranges, tunnel.api), *read]


def _walls(tunnel: Tunnel) -> dict[str, Manifest]:
    """Close the namespace, and open what the table says of its pods."""
    worn = platform.labels(tunnel.owner, "platform", names.PROJECT)
    made = walls.policies(names.PLATFORM_NAMESPACE, worn, rows_of_tunnel(tunnel))
    opened = {f"{name}-policy": policy for name, policy in made.items()}
    return {"default-deny": walls.default_deny(names.PLATFORM_NAMESPACE, worn), **opened}


def _worn(tunnel: Tunnel, name: str) -> names.Labels:
    return platform.labels(tunnel.owner, FRPS, name)


def _servers(tunnel: Tunnel, secrets: str, asked: pulumi.Input[str]) -> dict[str, Manifest]:
    """Give each server a Deployment of its own, so that one rolls at a time; the gate is *asked* at that address."""
    images = {"frp": tunnel.images.frp, "entrance": tunnel.images.entrance}
    # the gate says a limit when a unit is announced, which is when its server starts
    limit = [tunnel.spec.limits.bandwidth] if tunnel.spec.limits.bandwidth else []
    read = fingerprint(secrets, *_read_at_start(tunnel).values(), *limit)
    alias = {"ip": asked, "hostnames": [gate.HOST]}
    drain = seconds(tunnel.spec.drain)
    return {name: server_deployment(_worn(tunnel, name), images, drain, read, alias) for name, _, _ in tunnel.servers}


def _address(service: pulumi.CustomResource) -> pulumi.Output[str]:
    """Give the address of a Service; it has none in the preview that comes before it is made."""
    spec: pulumi.Output[Any] = getattr(service, "spec")  # noqa: B009 - `register` tells no kinds apart
    return spec.apply(lambda said: said.cluster_ip)


def start_seconds(spec: FrpSpec) -> int:
    """Give the seconds after which `up` gives a tunnel server up that was made or changed."""
    return seconds(spec.drain) + START_SECONDS


class TunnelTier(pulumi.ComponentResource):
    """The tunnel servers, their entrance and their gate."""

    def __init__(
        self,
        tunnel: Tunnel,
        secrets: TunnelSecrets,
        opts: pulumi.ResourceOptions | None = None,
        credentials: Iterable[Mapping[str, pulumi.Resource]] = (),
        rolled: pulumi.ResourceHook | None = None,
        told: pulumi.ResourceHook | None = None,
    ) -> None:
        """Make the tier; *credentials* are the units', which must have the new ones before a server demands them.

        *rolled* waits for a server that was changed, and *told* (see keys_now) has the gate know a new key before the
        first server rolls, to which units prove themselves by it; None where there is no cluster to ask.
        """
        inputs = {"namespace": names.PLATFORM_NAMESPACE}
        super().__init__(names.component_type("TunnelTier"), "tunnel", inputs, opts)
        opened = register("tunnel", {"namespace": platform.namespace(tunnel.owner)}, parent=self)
        opened |= register("tunnel", tunnel_services(tunnel), parent=self, after=list(opened.values()))
        found = {role.removesuffix("-service"): _address(one) for role, one in opened.items() if role != "namespace"}
        manifests = {
            role: made for role, made in tunnel_manifests(tunnel, secrets, found).items() if role not in opened
        }
        made = list(opened.values())
        servers = {name: manifests.pop(name) for name, _, _ in tunnel.servers}
        asked = {"gate": manifests.pop("gate")}
        made += register("tunnel", manifests, parent=self, after=made, options=told_by(told, "gate-secret")).values()
        hooks = pulumi.ResourceHookBinding(before_update=[say_roll()], after_update=[rolled] if rolled else None)
        after = [*made, *(one for unit in credentials for one in unit.values())]
        last = self._one_by_one(servers, start_seconds(tunnel.spec), hooks, after)
        # last: a server that has not rolled yet would not know the certificate of a gate that has
        register("tunnel", asked, parent=self, after=last)
        self.register_outputs({"servers": [name for name, _, _ in tunnel.servers]})

    def _one_by_one(
        self,
        servers: Mapping[str, Manifest],
        patience: int,
        hooks: pulumi.ResourceHookBinding,
        after: Sequence[pulumi.Resource],
    ) -> Sequence[pulumi.Resource]:
        """Register the servers so that each is ready, after *patience* seconds at most, before the next is touched."""
        wait = f"{patience}s"
        timeouts = pulumi.CustomTimeouts(create=wait, update=wait, delete=wait)
        options = pulumi.ResourceOptions(hooks=hooks, custom_timeouts=timeouts)
        for name, server in servers.items():
            after = [
                *after,
                *register("tunnel", {name: server}, parent=self, after=after, options={name: options}).values(),
            ]
        return after
