"""What the platform's entrances share: that of SSH and that of browsers, which have a Service each."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StrictBool, model_validator

from components import names
from components.dns import LABEL_KEY
from components.kube import SKIP_AWAIT, metadata
from components.model import Cidr, Manifest, Model, Whole, matching
from components.unit_spec import Duration, seconds

LONGEST_DRAIN = 3600
"""Seconds: drains and upgrades of managed clusters wait for no pod longer than an hour."""


INTERNAL = {
    "service.beta.kubernetes.io/aws-load-balancer-scheme": "internal",
    "service.beta.kubernetes.io/aws-load-balancer-internal": "true",
    "networking.gke.io/load-balancer-type": "Internal",
    "cloud.google.com/load-balancer-type": "Internal",
    "service.beta.kubernetes.io/azure-load-balancer-internal": "true",
    "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-address-type": "intranet",
    "service.beta.kubernetes.io/do-loadbalancer-network": "INTERNAL",
    "service.beta.kubernetes.io/oci-load-balancer-internal": "true",
    "service.beta.kubernetes.io/openstack-internal-load-balancer": "true",
    "service.beta.kubernetes.io/scw-loadbalancer-private": "true",
}
"""How clouds are told that a load balancer is of the private network alone: each reads its own word and no other's.

AWS (its controller, and the one in Kubernetes), Google (now, and before 1.17), Azure, Alibaba, DigitalOcean, Oracle,
OpenStack, Scaleway.
"""


ENGINE = "pulumi.com"
"""Domain of the annotations by which the engine is told how to make an object: ours to say (components.kube)."""


def _not_the_engines(key: str) -> str:
    if key.partition("/")[0] == ENGINE:
        raise ValueError("tells the engine how to make the Service, which is not the stack file's to say; leave it out")
    return key


AnnotationKey = Annotated[
    str,
    matching(
        LABEL_KEY,
        "must be an annotation's key such as example.com/name: at most 63 letters, digits, '-', '_' and '.', "
        "and before a '/' a lower-case domain",
    ),
    AfterValidator(_not_the_engines),
]


class ServiceSpec(Model):
    """One entrance; that of SSH is never shared with browsers."""

    type: Literal["LoadBalancer", "NodePort", "ClusterIP"] = "LoadBalancer"
    internal: StrictBool = False
    """True: a load balancer of the cloud's private network alone."""
    annotations: dict[AnnotationKey, str] = Field(default={})
    node_port: Annotated[Whole, Field(ge=1, le=65535)] | None = None
    source_ranges: tuple[Cidr, ...] = ()
    external_traffic_policy: Literal["Local", "Cluster"] = "Local"

    @model_validator(mode="after")
    def _internal_is_of_load_balancers(self) -> Self:
        if self.internal and self.type != "LoadBalancer":
            msg = (
                f"internal: true is for a load balancer, and the type is {self.type}; leave it out, or say LoadBalancer"
            )
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _internal_is_not_undone(self) -> Self:
        """Refuse a cloud's word for anything else: the annotation would win over ours, or ours over it, in silence."""
        said = self.annotations if self.internal else {}
        if undone := sorted(key for key in said.keys() & INTERNAL.keys() if said[key] != INTERNAL[key]):
            words = ", ".join(f"{key}: {said[key]} (internal is {INTERNAL[key]})" for key in undone)
            msg = f"internal: true is contradicted by its annotation {words}; leave out the one or the other"
            raise ValueError(msg)
        return self


def _drain(value: str) -> str:
    if seconds(value) > LONGEST_DRAIN:
        msg = "must be at most 1h: no drain of a node waits longer"
        raise ValueError(msg)
    return value


Drain = Annotated[Duration, AfterValidator(_drain)]
"""How long what goes through a pod may go on while it is being replaced."""


def entry_service(
    worn: names.Labels, component: str, said: ServiceSpec, ports: tuple[tuple[str, int], ...]
) -> Manifest:
    """Build the one Service of *component* that clients reach; *ports*, names to numbers, are names in the pod, too.

    A node port that is said is that of the first.
    """
    listed: list[Manifest] = [
        {"name": name, "port": port, "targetPort": name, "protocol": "TCP"} for name, port in ports
    ]
    if said.node_port is not None:
        listed[0]["nodePort"] = said.node_port
    spec: Manifest = {"type": said.type, "selector": names.component_selector(component), "ports": listed}
    if said.type != "ClusterIP":
        spec["externalTrafficPolicy"] = said.external_traffic_policy
    if said.type == "LoadBalancer" and said.source_ranges:
        spec["loadBalancerSourceRanges"] = list(said.source_ranges)
    name = worn["app.kubernetes.io/instance"]
    inside = INTERNAL if said.internal else {}
    meta = metadata(name, names.PLATFORM_NAMESPACE, worn, {**said.annotations, **inside, **SKIP_AWAIT})
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def spread(component: str) -> Manifest:
    """Keep pods of *component* on different nodes where there are some, so that one node's end is one pod's."""
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": names.component_selector(component)},
    }
