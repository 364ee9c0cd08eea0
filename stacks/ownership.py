"""Whether the stack may go where it wants to: the provider it uses, and who owns what is already there."""

import pulumi
import pulumi_kubernetes as k8s

from components import cluster, names
from components.cluster import Claim
from stacks.problems import Problem, RefusedError
from stacks.resolve import Stack
from stacks.schema import ClusterConfig


def demand(stack: Stack) -> None:
    """Refuse a namespace or claim that exists and is not this stack's.

    Raises RefusedError; also when the cluster cannot be asked, unless the offline switch is set.
    """
    if cluster.offline():
        pulumi.log.warn(f"{cluster.OFFLINE}=1: nobody asked the cluster who owns what this stack wants to make")
        return
    config = stack.config.cluster
    claims = [Claim(storage.namespace, names.claim(storage.name)) for storage in stack.storages.values()]
    try:
        client = cluster.connect(cluster.kubeconfig_path(config.kubeconfig), config.context)
        found = list(cluster.foreign(client, stack.owner, stack.namespaces, claims))
    except cluster.UnreachableError as error:
        advice = f"check the kubeconfig and `kubectl --context {config.context} get namespaces`"
        raise RefusedError([Problem("cluster", f"cannot be asked ({error}); {advice}")]) from None
    if found:
        raise RefusedError([Problem("tenants", f"{what} {why}") for what, why in found])


def provider(config: ClusterConfig) -> k8s.Provider:
    """Give the one provider: this kubeconfig and context, server-side apply, and updates in place.

    *cluster_identifier* keeps an edit of the kubeconfig from replacing the provider and with it every resource.
    """
    return k8s.Provider(
        "cluster",
        kubeconfig=cluster.kubeconfig_path(config.kubeconfig),
        context=config.context,
        cluster_identifier=config.context,
        enable_server_side_apply=True,
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
    )
