"""A tenant: one walled namespace with its quota."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import pulumi
from pydantic import Field

from components import names, walls
from components.admin_tier import admin_manifests
from components.dns import DnsSpec
from components.egress import Egress
from components.flows import Flow, tenant_flows
from components.kube import metadata, register
from components.model import Manifest, Model, Quantity, SecretName, Whole
from policy.baseline import BLOCKED_ANNOTATION, GPU_RESOURCES, NAMESPACE_LABELS

DEFAULT_LIMITS = {"cpu": "1", "memory": "1Gi"}
DEFAULT_REQUESTS = {"cpu": "100m", "memory": "128Mi"}
"""For a container that says nothing; ours all say, so this holds only what somebody adds by hand."""


CLAIMS = "count/resourceclaims.resource.k8s.io"
DEVICES = ".deviceclass.resource.k8s.io/devices"
"""Behind a device class: all its devices in the namespace. A cluster without dynamic allocation counts neither."""


class QuotaSpec(Model):
    """What a tenant may request in total; what is not said is not limited, save for GPUs."""

    gpus: Annotated[Whole, Field(ge=0)] | None = None
    cpu: Quantity | None = None
    memory: Quantity | None = None
    storage: Quantity | None = None


@dataclass(frozen=True)
class TenantSpec:
    """A tenant as its component needs it."""

    name: str
    namespace: str
    owner: str
    gpus: Mapping[str, int]
    """GPU resource name to the number granted; every other one is closed."""
    quota: QuotaSpec
    dns: DnsSpec
    egress: Egress
    internal: bool = False
    """True: its units reach each other on every port."""
    admin_tier: tuple[Flow, ...] | None = None
    """Rows of its units and of the platform, where the cluster has an admin tier to say them in, too."""
    claimed: Mapping[str, int] = field(default_factory=dict)
    """Device class to the number of devices granted."""
    claims: int = 0
    """ResourceClaims that may be there at once: one for each unit with GPUs."""
    pull_secrets: tuple[SecretName, ...] = ()
    retained: bool = False
    """True when a claim in it outlives the stack, so that the namespace must too."""

    @property
    def labels(self) -> names.Labels:
        """Give the labels of every object that belongs to the tenant as a whole."""
        return names.labels(owner=self.owner, component="tenant", instance=self.name, tenant=self.name)


def tenant_manifests(spec: TenantSpec) -> dict[str, Manifest]:
    """Build the objects of a tenant."""
    rows = rows_of_tenant(spec)
    above = () if spec.admin_tier is None else (*rows, *spec.admin_tier)
    return {
        "namespace": _namespace(spec),
        "default-deny": walls.default_deny(spec.namespace, spec.labels),
        **walls.policies(spec.namespace, spec.labels, rows),
        **(admin_manifests(spec.namespace, spec.labels, above, spec.egress.site) if above else {}),
        "quota": _quota(spec),
        "limits": _limit_range(spec),
        "service-account": _service_account(spec),
    }


def rows_of_tenant(spec: TenantSpec) -> list[Flow]:
    """Give the tenant's rows of the table of flows."""
    return tenant_flows(spec.namespace, spec.dns, spec.egress, internal=spec.internal)


def _namespace(spec: TenantSpec) -> Manifest:
    """Build the namespace; it says which ranges of the site its pods must not reach, so that the law can demand it."""
    labels = {**spec.labels, **NAMESPACE_LABELS}
    meta = metadata(spec.namespace, None, labels, {BLOCKED_ANNOTATION: ",".join(spec.egress.site)})
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def _quota(spec: TenantSpec) -> Manifest:
    """Limit what was granted, close what was not: other GPUs, and node ports and load balancers, the platform's own."""
    gpus = {**dict.fromkeys(GPU_RESOURCES, 0), **spec.gpus}
    said = {"cpu": spec.quota.cpu, "memory": spec.quota.memory, "storage": spec.quota.storage}
    hard = {
        **{f"requests.{resource}": amount for resource, amount in said.items() if amount is not None},
        **{f"requests.{resource}": str(count) for resource, count in sorted(gpus.items())},
        CLAIMS: str(spec.claims),
        **{f"{name}{DEVICES}": str(count) for name, count in sorted(spec.claimed.items())},
        "services.nodeports": "0",
        "services.loadbalancers": "0",
    }
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata("quota", spec.namespace, spec.labels),
        "spec": {"hard": hard},
    }


def _limit_range(spec: TenantSpec) -> Manifest:
    limit = {"type": "Container", "default": DEFAULT_LIMITS, "defaultRequest": DEFAULT_REQUESTS}
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": metadata("limits", spec.namespace, spec.labels),
        "spec": {"limits": [limit]},
    }


def _service_account(spec: TenantSpec) -> Manifest:
    """Build the account of every pod; Kubernetes gives its pull secrets to new pods, so no pod template has them."""
    pull = {"imagePullSecrets": [{"name": name} for name in spec.pull_secrets]} if spec.pull_secrets else {}
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(names.TENANT_SERVICE_ACCOUNT, spec.namespace, spec.labels),
        "automountServiceAccountToken": False,
        **pull,
    }


class Tenant(pulumi.ComponentResource):
    """One namespace with pod security, quota and closed walls; what runs in it depends on it."""

    namespace: str

    def __init__(self, spec: TenantSpec, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(names.component_type("Tenant"), spec.name, {"namespace": spec.namespace}, opts)
        manifests = tenant_manifests(spec)
        first = {"namespace": manifests.pop("namespace")}
        keep = pulumi.ResourceOptions(retain_on_delete=spec.retained)
        namespace = register(spec.name, first, parent=self, options={"namespace": keep})
        register(spec.name, manifests, parent=self, after=list(namespace.values()))
        self.namespace = spec.namespace
        self.register_outputs({"namespace": self.namespace})
