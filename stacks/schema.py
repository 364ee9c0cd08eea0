"""What a stack file may say: the public interface of the project."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, StrictBool

from components import names
from components.access import WebUsers
from components.bundle import Bundle
from components.cluster import kubeconfig_path
from components.dns import DnsSpec, LabelKey
from components.egress import EgressSpec
from components.flavor import Flavor
from components.metrics import MetricsSpec
from components.model import Cidr, Host, Model, Name, PinnedImage, Port, SecretName, Whole
from components.oidc_spec import WebClaims
from components.proxy_spec import ProxySpec
from components.storage_spec import AccessMode, StorageSpec
from components.tenant import QuotaSpec
from components.tunnel import FrpSpec
from components.tunnel_server import Certificates
from components.unit_spec import UnitSpec
from components.user_ca import UserCaSpec

PLATFORM_IMAGES = ("bundle", "entrance", "frp", "gate", "prepare", "probe", "tunnel")
"""Images that the platform itself runs; the catalogue must have them."""

TIER_IMAGES = frozenset({"entrance", "frp", "gate"})
"""Those that only tunnel servers of its own need."""

PROXY_IMAGES = ("proxy", "routes")
"""Those that only a platform with `browser` needs."""

MOST_RANGES = 250
"""In one list of the cluster's own: every tenant's namespace names them all, in an annotation of at most 256 KiB."""

Ranges = Annotated[tuple[Cidr, ...], Field(max_length=MOST_RANGES)]


class ClusterConfig(Model):
    """The cluster, named strictly: a wrong current context must never receive a stack."""

    context: Annotated[str, Field(min_length=1)]
    kubeconfig: str | None = None
    """Path of the kubeconfig; None: KUBECONFIG, else ~/.kube/config."""
    api_server_cidrs: Ranges = ()
    """Also where the gate finds the API server, at its own addresses: those of the Service are translated before."""
    api_server_ports: Annotated[tuple[Port, ...], Field(min_length=1, max_length=8)] = names.API_SERVER_PORTS
    pod_cidrs: Ranges = ()
    service_cidrs: Ranges = ()
    node_cidrs: Ranges = ()
    dns: DnsSpec = DnsSpec()
    gpu_taints: tuple[LabelKey, ...] = ()
    """Keys of further taints that mark nodes with GPUs: what a flavor may tolerate beside those of GPU vendors."""
    image_volumes: StrictBool = False
    """True: nodes mount an image as a volume (Kubernetes 1.35, containerd 2.2): units start a second sooner."""
    admin_tier: StrictBool = False
    """True: ClusterNetworkPolicies beside the NetworkPolicies, which nobody in a tenant's namespace can add to."""

    @property
    def address(self) -> tuple[str, str]:
        """Give where it is found: path of the kubeconfig, and context."""
        return kubeconfig_path(self.kubeconfig), self.context

    @property
    def cidrs(self) -> tuple[str, ...]:
        """Give the cluster's own ranges, which no tenant may reach by address."""
        return (*self.api_server_cidrs, *self.pod_cidrs, *self.service_cidrs, *self.node_cidrs)


class PlatformConfig(Model):
    """The shared tier of the stack."""

    ssh: FrpSpec
    browser: ProxySpec | None = None
    """The proxy; None: storages have no browser, and no port is shown."""
    admits: tuple[Name, ...] = ()
    """Stacks of tenants alone, by name, whose units may use this tier."""
    metrics: MetricsSpec | None = None
    """Who may read the metrics of gate and proxy; None: nobody."""


class Shown(Model):
    """Where browsers find the platform's proxy."""

    host: Host
    port: Port = 443
    oidc: StrictBool = False
    """True: an issuer signs people in beside passwords."""


class HandedOver(Model):
    """What a platform tells the stacks that it admits: its output ``platform``; nothing here is secret."""

    owner: Name
    """The stack that has the platform."""
    ssh: FrpSpec
    ca: Certificates
    """Of the authority that signed its tunnel servers' certificates."""
    browser: Shown | None = None


KEY = re.compile(r"[0-9a-f]{64}")


def _hexadecimal(value: SecretStr) -> SecretStr:
    if not KEY.fullmatch(value.get_secret_value()):
        raise ValueError("must be 64 hexadecimal digits, as the platform's output has them")
    return value


class PlatformKeys(Model):
    """What a platform gives to one stack that it admits: its output ``admitted-<stack>``."""

    key: Annotated[SecretStr, AfterValidator(_hexadecimal)]
    """Signs the capabilities of that stack's units and of no other's: 64 hexadecimal digits."""
    token: SecretStr
    """What all tunnel clients of the platform share."""


class StorageDefaults(Model):
    """What a storage that does not say gets."""

    storage_class: str | None = Field(default=None, alias="class", min_length=1)
    access_mode: AccessMode = "ReadWriteOnce"


class TenantConfig(Model):
    """One tenant."""

    quota: QuotaSpec = QuotaSpec()
    internal: StrictBool = False
    """True: the tenant's own units reach each other on every port."""
    egress: EgressSpec = EgressSpec()
    pull_secrets: tuple[SecretName, ...] = ()
    """Secrets in the tenant's namespace, which its owner puts there, that open private registries."""
    user_ca: UserCaSpec | None = None
    """In place of the stack's, for each unit that names none itself."""
    web_users: WebUsers | None = None
    """Who may sign in to the tenant's pages; None: one user, called like the tenant; none: nobody."""
    web_epoch: Annotated[Whole, Field(ge=0)] = 0
    """Another number is another password for each of them."""
    web_claims: WebClaims = Field(default={})
    """Whom the tenant admits of those whom the platform's issuer signs in; none: nobody."""
    storages: dict[Name, StorageSpec] = Field(default={})
    units: dict[Name, UnitSpec] = Field(default={})


class StackConfig(Model):
    """A whole stack file, below ``gpu-runtime:``."""

    cluster: ClusterConfig
    platform: PlatformConfig | None = None
    platform_stack: HandedOver | None = None
    """In place of ``platform``: whose tier the units use. A file names that stack, the program reads its output."""
    platform_keys: PlatformKeys | None = None
    egress: EgressSpec = EgressSpec()
    storage: StorageDefaults = StorageDefaults()
    images: dict[Name, PinnedImage]
    flavors: dict[Name, Flavor]
    user_ca: UserCaSpec | None = None
    """For each unit of a tenant that names none, and that names none itself."""
    tenants: dict[Name, TenantConfig] = Field(default={})
    namespace_prefix: Annotated[str, Field(pattern=r"^([a-z][a-z0-9-]{0,18}-)?$")] = ""
    secret: SecretStr
    previous_secret: SecretStr | None = None
    server_token: SecretStr | None = None
    """Token of the tunnel server elsewhere, where there is one."""
    oidc_client_secret: SecretStr | None = None
    """What the proxy proves itself to the issuer of ``platform.browser.oidc`` with."""
    epoch: Annotated[Whole, Field(ge=0)] = 0

    @property
    def bundle(self) -> Bundle:
        """Give the way in which pods come by our programs."""
        return Bundle(self.images["bundle"], self.cluster.image_volumes)

    @property
    def ssh(self) -> FrpSpec:
        """Give the way to the units: of the stack's own platform, or of the one that it uses."""
        said = self.platform or self.platform_stack
        if said is None:
            raise ValueError("neither platform nor platformStack: parse() refuses that")
        return said.ssh

    @property
    def browser(self) -> ProxySpec | Shown | None:
        """Give the proxy of the stack's own platform, or of the one that it uses."""
        said = self.platform or self.platform_stack
        return said.browser if said else None
