"""From a stack file to the specs of components: defaults filled in, names looked up, secrets derived."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pulumi

from components import derive, gate, names
from components.egress import Egress, of_stack
from components.flows import OWN_TUNNEL
from components.gpu_storage import Storage, storage_manifests
from components.gpu_unit import Unit, UnitSecrets, ssh_access, tunnel_json, unit_manifests
from components.model import Manifest
from components.ssh_client import Access
from components.tenant import TenantSpec, tenant_manifests
from components.tunnel import SERVER_NAME, Tunnel, TunnelSecrets, tunnel_manifests
from components.tunnel_server import ServerSpec
from stacks.schema import StackConfig, TenantConfig


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
    def storages(self) -> dict[str, Storage]:
        """Give the storages by ``<storage>.<tenant>``."""
        made = (self._storage(tenant, name) for tenant, said in self.config.tenants.items() for name in said.storages)
        return {storage.alias: storage for storage in made}

    @cached_property
    def units(self) -> dict[str, Unit]:
        """Give the units by ``<unit>.<tenant>``."""
        made = (self._unit(tenant, name) for tenant, said in self.config.tenants.items() for name in said.units)
        return {unit.alias: unit for unit in made}

    @cached_property
    def tunnel(self) -> Tunnel | None:
        """Give the tunnel tier; None where the servers are elsewhere."""
        config = self.config
        if config.platform.ssh.server:
            return None
        return Tunnel(config.platform.ssh, self.owner, config.images["frp"], config.images["gate"], config.cluster.dns)

    @property
    def servers(self) -> list[tuple[str, str, int]]:
        """List name, address and port of each tunnel server, as units reach it."""
        server = self.config.platform.ssh.server
        return [("server", server.address, server.port)] if server else self.tunnel.servers if self.tunnel else []

    @cached_property
    def egress(self) -> Egress:
        """Give the way out that every tenant has."""
        cluster = self.config.cluster
        return of_stack(self.config.egress, cluster.cidrs, cluster.sealed)

    @property
    def namespaces(self) -> list[str]:
        """Name every namespace that the stack makes."""
        platform = [names.PLATFORM_NAMESPACE] if self.tunnel else []
        return [*platform, *(tenant.namespace for tenant in self.tenants.values())]

    def storages_of(self, unit: Unit) -> list[str]:
        """Name by alias the storages that must be there, and filled, before *unit* starts."""
        return [f"{storage}.{unit.tenant}" for storage in dict.fromkeys(unit.spec.storages)]

    def manifests(self) -> list[Manifest]:
        """Build every object of the stack, with secrets left blank: what the law judges."""
        return list(_manifests(self))

    def _tenant(self, name: str, tenant: TenantConfig) -> TenantSpec:
        return TenantSpec(
            name=name,
            namespace=self._namespace(name),
            owner=self.owner,
            gpus=self._granted(tenant),
            quota=tenant.quota,
            dns=self.config.cluster.dns,
            egress=self.egress.of_tenant(tenant.egress, self.config.cluster.sealed),
            internal=tenant.internal,
            retained=any(not storage.delete_with_stack for storage in tenant.storages.values()),
        )

    def _namespace(self, tenant: str) -> str:
        return names.tenant_namespace(self.config.namespace_prefix, tenant)

    def _granted(self, tenant: TenantConfig) -> dict[str, int]:
        """Grant the quota, or what the units declare."""
        used: dict[str, int] = {}
        for flavor in (self.config.flavors[unit.flavor] for unit in tenant.units.values()):
            if flavor.gpus:
                used[flavor.resource] = used.get(flavor.resource, 0) + flavor.gpus
        quota = tenant.quota.gpus
        return used if quota is None else dict.fromkeys(used, quota)

    def _storage(self, tenant: str, name: str) -> Storage:
        spec = self.config.tenants[tenant].storages[name]
        defaults = self.config.storage
        return Storage(
            name=name,
            tenant=tenant,
            namespace=self._namespace(tenant),
            owner=self.owner,
            spec=spec,
            storage_class=spec.storage_class or defaults.storage_class,
            access_mode=spec.access_mode or defaults.access_mode,
            bundle_image=self.config.images["bundle"],
            prepare_image=self._image(spec.prepare.image) if spec.prepare else None,
        )

    def _unit(self, tenant: str, name: str) -> Unit:
        spec, ssh = self.config.tenants[tenant].units[name], self.config.platform.ssh
        namespace = self._namespace(tenant)
        suffix = spec.domain_suffix or ssh.domain_suffixes[0]
        return Unit(
            name=name,
            tenant=tenant,
            namespace=namespace,
            owner=self.owner,
            spec=spec,
            flavor=self.config.flavors[spec.flavor],
            image=self._image(spec.image),
            bundle_image=self.config.images["bundle"],
            tunnel_image=self.config.images["tunnel"],
            host=names.unit_host(spec.host or name, namespace, suffix),
            connect=(ssh.connect.host, ssh.connect.port),
            tunnel=ssh.server.flow if ssh.server else OWN_TUNNEL,
        )

    def _image(self, name: str) -> str:
        return self.config.images.get(name, name)


@dataclass(frozen=True)
class Keys:
    """Every secret of a stack, derived on demand; each value is a secret to the engine."""

    stack: Stack

    @property
    def _secret(self) -> str:
        return self.stack.config.secret.get_secret_value()

    @property
    def _epoch(self) -> int:
        return self.stack.config.epoch

    @cached_property
    def _authority(self) -> derive.Authority:
        return derive.Authority(self._secret, self._epoch, self.stack.owner)

    @cached_property
    def _certificate(self) -> str:
        return self._authority.certificate

    @cached_property
    def _stack_key(self) -> bytes:
        return derive.stack_key(derive.gate_key(self._secret, self._epoch), self.stack.owner)

    @cached_property
    def _token(self) -> str:
        return derive.frp_token(self._secret, self._epoch)

    @property
    def _elsewhere(self) -> ServerSpec | None:
        return self.stack.config.platform.ssh.server

    @property
    def _server_name(self) -> str:
        return self._elsewhere.name if self._elsewhere else SERVER_NAME

    @property
    def _server_authority(self) -> str:
        return self._elsewhere.ca if self._elsewhere else self._certificate

    @property
    def _server_token(self) -> str:
        given = self.stack.config.server_token
        return given.get_secret_value() if self._elsewhere and given else self._token

    def tunnel(self) -> TunnelSecrets:
        """Give the files of the tunnel tier."""
        certificate, key = self._authority.server(SERVER_NAME)
        frps = {"tls.crt": certificate, "tls.key": key, "ca.crt": self._certificate, "token": self._token}
        gate_certificate, gate_private = self._authority.server(gate.HOST)
        asked = {"tls.crt": gate_certificate, "tls.key": gate_private, "key": self._gate_keys()}
        return TunnelSecrets(
            _sealed(frps), _sealed(asked), derive.fingerprint(*frps.values()), derive.fingerprint(gate_certificate)
        )

    def _gate_keys(self) -> str:
        """List the gate's keys, newest first: while a secret is rotated, capabilities of both are good."""
        previous = self.stack.config.previous_secret
        secrets = [self._secret, *([previous.get_secret_value()] if previous else [])]
        return "".join(f"{derive.gate_key(secret, self._epoch)}\n" for secret in secrets)

    def host_key(self, unit: Unit) -> derive.HostKey:
        """Give the SSH host key of *unit*."""
        return derive.host_key(self._secret, self._epoch, unit.namespace, unit.name)

    def unit(self, unit: Unit, host_key: derive.HostKey) -> UnitSecrets:
        """Give the files of the two Secrets of *unit*."""
        files = {
            "tunnel.json": tunnel_json(unit, self.stack.servers, self._server_name),
            "ca.crt": self._server_authority,
            "token": self._server_token,
            "capability": derive.capability(self._stack_key, unit.namespace, unit.name, unit.host),
        }
        return UnitSecrets(pulumi.Output.secret(host_key.private), _sealed(files))

    def access(self, unit: Unit) -> Access | None:
        """Say how clients reach *unit*; None without SSH."""
        return ssh_access(unit, self.host_key(unit).public)


def _sealed(files: Mapping[str, str]) -> dict[str, pulumi.Input[str]]:
    return {name: pulumi.Output.secret(content) for name, content in files.items()}


BLANK = UnitSecrets("", dict.fromkeys(("tunnel.json", "ca.crt", "token", "capability"), ""))
BLANK_TUNNEL = TunnelSecrets({}, {}, "", "")
"""Stand where secrets will be, while a stack is judged."""


def _manifests(stack: Stack) -> Iterator[Manifest]:
    if stack.tunnel:
        yield from tunnel_manifests(stack.tunnel, BLANK_TUNNEL).values()
    for tenant in stack.tenants.values():
        yield from tenant_manifests(tenant).values()
    for storage in stack.storages.values():
        yield from storage_manifests(storage).values()
    for unit in stack.units.values():
        yield from unit_manifests(unit, BLANK).values()
