"""From a stack file to the specs of components: defaults filled in, names looked up."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from components import names
from components.access import Access, AccessSecrets, access_manifests
from components.browser import rows_of_browser
from components.egress import Egress, of_stack
from components.flows import OWN_TUNNEL, PROXY, ApiServers, Flow
from components.gpu_storage import storage_manifests
from components.gpu_unit import Unit, UnitSecrets, rows_of_unit, unit_manifests
from components.model import Manifest
from components.probe import ProbeSpec, probe_manifests
from components.probe_targets import Surroundings, targets
from components.proxy import Proxy, ProxySecrets, proxy_manifests, rows_of_proxy
from components.routes import Routes
from components.storage_spec import Storage
from components.tenant import QuotaSpec, TenantSpec, rows_of_tenant, tenant_manifests
from components.tunnel import TierImages, Tunnel, TunnelSecrets, rows_of_tunnel, tunnel_manifests
from stacks import grants
from stacks.schema import StackConfig, TenantConfig
from stacks.volumes import image_of, storages_of


@dataclass(frozen=True)
class Stack:
    """A stack resolved: what each component needs, and nothing that it does not."""

    config: StackConfig
    owner: str

    @cached_property
    def tenants(self) -> dict[str, TenantSpec]:
        """Give the tenants by name."""
        return {name: self._tenant(name, tenant) for name, tenant in self.config.tenants.items()}

    @cached_property
    def access(self) -> dict[str, Access]:
        """Give by tenant who may look at what it has; none where nothing leads there."""
        if self.config.browser is None:
            return {}
        made = (self._access(name, tenant) for name, tenant in self.config.tenants.items())
        return {access.tenant: access for access in made if access.users or access.claims}

    @cached_property
    def storages(self) -> dict[str, Storage]:
        """Give the storages by ``<storage>.<tenant>``."""
        made = (storages_of(self.config, tenant, self._namespace(tenant), self.owner) for tenant in self.config.tenants)
        return {storage.alias: storage for storages in made for storage in storages}

    @cached_property
    def units(self) -> dict[str, Unit]:
        """Give the units by ``<unit>.<tenant>``."""
        made = (self._unit(tenant, name) for tenant, said in self.config.tenants.items() for name in said.units)
        return {unit.alias: unit for unit in made}

    @cached_property
    def tunnel(self) -> Tunnel | None:
        """Give the tunnel tier that the stack makes; None where the servers are elsewhere or another stack's."""
        config, images = self.config, self.config.images
        if config.platform is None or config.ssh.server:
            return None
        tier = TierImages(**{name: images[name] for name in ("entrance", "frp", "gate")})
        platform = config.platform
        return Tunnel(config.ssh, self.owner, tier, self._api_servers, platform.admits, platform.metrics)

    @property
    def _api_servers(self) -> ApiServers:
        return ApiServers(self.config.cluster.api_server_cidrs, self.config.cluster.api_server_ports)

    @cached_property
    def proxy(self) -> Proxy | None:
        """Give the proxy that the stack makes; None where it has none, or uses another stack's."""
        config, images = self.config, self.config.images
        if config.platform is None or config.platform.browser is None:
            return None
        spec, owners = config.platform.browser, (self.owner, *config.platform.admits)
        routes = Routes(images["routes"], owners, spec.host, spec.port, config.cluster.pod_cidrs)
        shown = tuple(row for unit in self.units.values() for row in rows_of_unit(unit) if row.source == PROXY)
        dns, alone, metrics = config.cluster.dns, self.tunnel is None, config.platform.metrics
        return Proxy(spec, self.owner, images["proxy"], routes, self._api_servers, shown, dns, alone, metrics)

    @property
    def servers(self) -> list[tuple[str, str, int]]:
        """List name, address and port of each tunnel server, as units reach it."""
        return self.config.ssh.servers

    @cached_property
    def egress(self) -> Egress:
        """Give the way out that every tenant has."""
        return of_stack(self.config.egress, self.config.cluster.cidrs)

    @property
    def namespaces(self) -> dict[str, str | None]:
        """Name every namespace that the stack makes, with its tenant; None: it is the platform's."""
        platform = [names.PLATFORM_NAMESPACE] if self.tunnel or self.proxy else []
        platform += [names.ACCESS_NAMESPACE] if self.proxy else []
        tenants = [self.probe_tenant, *self.tenants.values()]
        return {**dict.fromkeys(platform), **{tenant.namespace: tenant.name for tenant in tenants}}

    @cached_property
    def probe_tenant(self) -> TenantSpec:
        """Give the tenant that the probe plays, in the walls that every tenant has."""
        return TenantSpec(
            name=names.PROBE_TENANT,
            namespace=names.probe_namespace(self.owner),
            owner=self.owner,
            gpus={},
            quota=QuotaSpec(),
            dns=self.config.cluster.dns,
            egress=self.egress,
            admin_tier=self._admin_tier(()),
        )

    @cached_property
    def probe(self) -> ProbeSpec:
        """Give the probe; it is named by every policy of the stack, its own tenant's included."""
        walls = tuple(manifest for manifest in self._walled if manifest["kind"].endswith("NetworkPolicy"))
        holes = tuple(hole.block.cidr for hole in self.egress.holes)
        services = tuple(_service(unit) for unit in self.units.values() if unit.spec.ports)
        tier, cluster = None if self.config.ssh.server else self.config.ssh, self.config.cluster
        around = Surroundings(tier, cluster.api_server_cidrs, cluster.api_server_ports, holes, services)
        return ProbeSpec(self.owner, self.config.images["probe"], tuple(targets(around)), walls)

    @cached_property
    def flows(self) -> list[Flow]:
        """Give the whole table: every connection that the stack permits."""
        tenants = [self.probe_tenant, *self.tenants.values()]
        return [
            *(rows_of_tunnel(self.tunnel) if self.tunnel else ()),
            *(rows_of_proxy(self.proxy) if self.proxy else ()),
            *(row for tenant in tenants for row in rows_of_tenant(tenant)),
            *(row for storage in self.storages.values() for row in rows_of_browser(storage)),
            *(row for unit in self.units.values() for row in rows_of_unit(unit)),
        ]

    def manifests(self) -> list[Manifest]:
        """Build every object of the stack, with secrets left blank: what the law judges."""
        return [*self._walled, *probe_manifests(self.probe).values()]

    @cached_property
    def _walled(self) -> list[Manifest]:
        """Build every object but the probe's own, which depend on these."""
        return list(_manifests(self))

    def _tenant(self, name: str, tenant: TenantConfig) -> TenantSpec:
        flavors = [self.config.flavors[unit.flavor] for unit in tenant.units.values()]
        return TenantSpec(
            name=name,
            namespace=self._namespace(name),
            owner=self.owner,
            gpus=grants.resources(flavors, tenant.quota.gpus),
            claimed=grants.devices(flavors, tenant.quota.gpus),
            claims=grants.claims(flavors),
            pull_secrets=tenant.pull_secrets,
            quota=tenant.quota,
            dns=self.config.cluster.dns,
            egress=self.egress.of_tenant(tenant.egress),
            internal=tenant.internal,
            admin_tier=self._admin_tier(f"{unit}.{name}" for unit in tenant.units),
            retained=any(storage.protect or not storage.delete_with_stack for storage in tenant.storages.values()),
        )

    def _admin_tier(self, units: Iterable[str]) -> tuple[Flow, ...] | None:
        """Give the rows around a tenant with *units*, where a stack file asks for the admin tier."""
        if not self.config.cluster.admin_tier:
            return None
        tier = rows_of_tunnel(self.tunnel) if self.tunnel else []
        tier += rows_of_proxy(self.proxy) if self.proxy else []
        shown = (row for storage in self.storages.values() for row in rows_of_browser(storage))
        return (*tier, *shown, *(row for alias in units for row in rows_of_unit(self.units[alias])))

    def _access(self, name: str, tenant: TenantConfig) -> Access:
        users = (name,) if tenant.web_users is None else tenant.web_users
        return Access(name, self._namespace(name), self.owner, users, tenant.web_epoch, tenant.web_claims)

    def _namespace(self, tenant: str) -> str:
        return names.tenant_namespace(self.config.namespace_prefix, tenant)

    def _unit(self, tenant: str, name: str) -> Unit:
        said, ssh = self.config.tenants[tenant], self.config.ssh
        spec = said.units[name]
        namespace = self._namespace(tenant)
        suffix = spec.domain_suffix or ssh.domain_suffixes[0]
        return Unit(
            name=name,
            tenant=tenant,
            namespace=namespace,
            owner=self.owner,
            spec=spec,
            flavor=self.config.flavors[spec.flavor],
            image=image_of(self.config, spec.image),
            bundle=self.config.bundle.copied if spec.user_namespace else self.config.bundle,
            tunnel_image=self.config.images["tunnel"],
            host=names.unit_host(spec.host or name, namespace, suffix),
            connect=(ssh.connect.host, ssh.connect.port),
            tunnel=ssh.server.flow if ssh.server else OWN_TUNNEL,
            remote_forwarding=ssh.remote_forwarding,
            user_ca=said.user_ca or self.config.user_ca,
        )


BLANK = UnitSecrets("", dict.fromkeys(("tunnel.json", "ca.crt", "token", "capability"), ""))
BLANK_TUNNEL = TunnelSecrets({}, {}, "", "")
BLANK_ACCESS = AccessSecrets("")
BLANK_ADDRESS = "192.0.2.1"
BLANK_PROXY = ProxySecrets({})
"""Stand where secrets will be, and addresses, while a stack is judged."""


def _service(unit: Unit) -> tuple[str, str, int]:
    """Give alias, host and port of a unit's first port, as other pods would find it."""
    return unit.alias, names.service_host(names.unit(unit.name), unit.namespace), unit.spec.ports[0].port


def _manifests(stack: Stack) -> Iterator[Manifest]:
    if stack.tunnel:
        yield from tunnel_manifests(stack.tunnel, BLANK_TUNNEL, defaultdict(lambda: BLANK_ADDRESS)).values()
    if stack.proxy:
        yield from proxy_manifests(stack.proxy, BLANK_PROXY).values()
    for tenant in (stack.probe_tenant, *stack.tenants.values()):
        yield from tenant_manifests(tenant).values()
    for access in stack.access.values():
        yield from access_manifests(access, BLANK_ACCESS).values()
    for storage in stack.storages.values():
        yield from storage_manifests(storage).values()
    for unit in stack.units.values():
        yield from unit_manifests(unit, BLANK).values()
