"""What the program sees of a cluster beside who owns what: its addresses, its DNS, what it serves."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
from lightkube import Client
from lightkube.generic_resource import GenericGlobalResource, create_global_resource
from lightkube.resources.apps_v1 import DaemonSet
from lightkube.resources.core_v1 import Node, Pod, Service
from lightkube.resources.discovery_v1 import EndpointSlice
from lightkube.resources.networking_v1 import ServiceCIDR

from components.cluster import answered
from components.dns import DnsSpec

PAGE = 500
"""Objects in one answer: five thousand nodes come in ten answers of some megabytes each."""

ADMIN_TIER = create_global_resource(
    "policy.networking.k8s.io", "v1alpha2", "ClusterNetworkPolicy", "clusternetworkpolicies"
)

Question = Callable[[Client], Iterable[Any]]


@dataclass(frozen=True)
class View:
    """What a cluster answered; a list is empty where there is nothing, and where the deployer may not look."""

    nodes: tuple[Node, ...] = ()
    services: tuple[Service, ...] = ()
    """The Service `kubernetes`."""
    slices: tuple[EndpointSlice, ...] = ()
    """Where the API server itself answers."""
    service_cidrs: tuple[ServiceCIDR, ...] = ()
    dns_pods: tuple[Pod, ...] = ()
    """Pods that the DNS selector matches; where it matches none, all pods of that namespace."""
    dns_services: tuple[Service, ...] = ()
    node_dns: tuple[DaemonSet, ...] = ()
    """NodeLocal DNS."""
    admin_tier: tuple[GenericGlobalResource, ...] | None = None
    """Its ClusterNetworkPolicies; None where the cluster does not know that kind, or was not asked."""
    forbidden: tuple[str, ...] = ()
    """Names of the fields above that are empty because the deployer may not list such things."""

    @property
    def unseen(self) -> list[str]:
        """Say in the words of a role's rules what the deployer may not list."""
        return [WORDS[name] for name in self.forbidden]


def look(client: Client, dns: DnsSpec, *, admin_tier: bool) -> View:
    """Ask the cluster all there is to ask.

    Raises UnreachableError when it does not answer; what the deployer may not see is told in the view.
    """
    answers = ask(client, {**_questions(dns), **({"admin_tier": all_of(ADMIN_TIER)} if admin_tier else {})})
    forbidden = tuple(name for name, answer in answers.items() if answer is FORBIDDEN)
    seen = {name: answer for name, answer in answers.items() if answer is not None and answer is not FORBIDDEN}
    return View(**seen, forbidden=forbidden)


FORBIDDEN: tuple[Any, ...] = ("may not be listed",)
"""Stands for an answer that the deployer is not given."""


def ask(client: Client, questions: Mapping[str, Question]) -> dict[str, tuple[Any, ...] | None]:
    """Ask *questions*; an answer is a tuple, None for a kind that the cluster does not know, or FORBIDDEN.

    One after the other: the client's decoder crashes the process when two threads meet a kind for the first time.
    Raises UnreachableError when the cluster does not answer.
    """
    with answered():
        return {name: _answer(client, question) for name, question in questions.items()}


def all_of(kind: Any) -> Question:
    """Ask for every object of *kind* that is not in a namespace."""
    return lambda client: client.list(kind, chunk_size=PAGE)


WORDS = {
    "nodes": "nodes",
    "services": "services in default",
    "slices": "endpointslices in default",
    "service_cidrs": "servicecidrs",
    "dns_pods": "pods in the namespace of cluster DNS",
    "dns_services": "services in the namespace of cluster DNS",
    "node_dns": "daemonsets in kube-system",
    "admin_tier": "clusternetworkpolicies",
}
"""Each question in the words of a role's rules."""


def _questions(dns: DnsSpec) -> dict[str, Question]:
    return {
        "nodes": all_of(Node),
        "services": lambda client: client.list(
            Service, namespace="default", fields={"metadata.name": "kubernetes"}, chunk_size=PAGE
        ),
        "slices": lambda client: client.list(
            EndpointSlice, namespace="default", labels={"kubernetes.io/service-name": "kubernetes"}
        ),
        "service_cidrs": all_of(ServiceCIDR),
        "dns_pods": lambda client: _dns_pods(client, dns),
        "dns_services": lambda client: client.list(Service, namespace=dns.namespace),
        "node_dns": lambda client: client.list(
            DaemonSet, namespace="kube-system", labels={"k8s-app": "node-local-dns"}
        ),
    }


def _dns_pods(client: Client, dns: DnsSpec) -> list[Pod]:
    """Ask once where the selector is right, and once more, for advice, where it is not."""
    matched = list(client.list(Pod, namespace=dns.namespace, labels=dict(dns.selector)))
    return matched or list(client.list(Pod, namespace=dns.namespace, chunk_size=PAGE))


def _answer(client: Client, question: Question) -> tuple[Any, ...] | None:
    """Give all that there is, None for a kind that the cluster does not know, FORBIDDEN for what may not be seen."""
    try:
        return tuple(question(client))
    except httpx2.HTTPStatusError as error:
        if error.response.status_code == httpx2.codes.NOT_FOUND:
            return None
        if error.response.status_code == httpx2.codes.FORBIDDEN:
            return FORBIDDEN
        raise
