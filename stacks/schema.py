"""What a stack file may say: the public interface of the project."""

from typing import Annotated

from pydantic import Field, SecretStr, StrictBool

from components.dns import DnsSpec, LabelKey
from components.egress import EgressSpec
from components.flavor import Flavor
from components.gpu_storage import AccessMode, StorageSpec
from components.model import Cidr, Model, Name, PinnedImage, SecretName
from components.tenant import QuotaSpec
from components.tunnel import FrpSpec
from components.unit_spec import UnitSpec

PLATFORM_IMAGES = ("bundle", "frp", "gate", "probe", "tunnel")
"""Images that the platform itself runs; the catalogue must have them."""

TIER_IMAGES = frozenset({"frp", "gate"})
"""Those that only tunnel servers of its own need."""


MOST_RANGES = 250
"""In one list of the cluster's own: every tenant's namespace names them all, in an annotation of at most 256 KiB."""

Ranges = Annotated[tuple[Cidr, ...], Field(max_length=MOST_RANGES)]


class ClusterConfig(Model):
    """The cluster, named strictly: a wrong current context must never receive a stack."""

    context: Annotated[str, Field(min_length=1)]
    kubeconfig: str | None = None
    """Path of the kubeconfig; None: KUBECONFIG, else ~/.kube/config."""
    api_server_cidrs: Ranges = ()
    pod_cidrs: Ranges = ()
    service_cidrs: Ranges = ()
    node_cidrs: Ranges = ()
    dns: DnsSpec = DnsSpec()
    gpu_taints: tuple[LabelKey, ...] = ()
    """Keys of further taints that mark nodes with GPUs: what a flavor may tolerate beside those of GPU vendors."""
    admin_tier: StrictBool = False
    """True: ClusterNetworkPolicies beside the NetworkPolicies, which nobody in a tenant's namespace can add to."""

    @property
    def cidrs(self) -> tuple[str, ...]:
        """Give the cluster's own ranges, which no tenant may reach by address."""
        return (*self.api_server_cidrs, *self.pod_cidrs, *self.service_cidrs, *self.node_cidrs)


class PlatformConfig(Model):
    """The shared tier of the stack."""

    ssh: FrpSpec


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
    storages: dict[Name, StorageSpec] = Field(default={})
    units: dict[Name, UnitSpec] = Field(default={})


class StackConfig(Model):
    """A whole stack file, below ``gpu-runtime:``."""

    cluster: ClusterConfig
    platform: PlatformConfig
    egress: EgressSpec = EgressSpec()
    storage: StorageDefaults = StorageDefaults()
    images: dict[Name, PinnedImage]
    flavors: dict[Name, Flavor]
    tenants: dict[Name, TenantConfig] = Field(default={})
    namespace_prefix: Annotated[str, Field(pattern=r"^([a-z][a-z0-9-]{0,18}-)?$")] = ""
    secret: SecretStr
    previous_secret: SecretStr | None = None
    server_token: SecretStr | None = None
    """Token of the tunnel server elsewhere, where there is one."""
    epoch: Annotated[int, Field(ge=0)] = 0
