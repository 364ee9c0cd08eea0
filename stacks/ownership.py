"""Whether the stack may go where it wants to: its provider, who owns what is there, what the walls must know."""

from collections.abc import Iterable, Iterator
from functools import partial

import pulumi
import pulumi_kubernetes as k8s
from lightkube import Client

from components import cluster, keys_now, names, rolled
from components.cluster import Claim
from components.cluster_dns import dns_warnings
from components.cluster_ranges import unasked, unlisted, unreached
from components.cluster_storage import volumes
from components.cluster_view import View, look
from components.names import PROJECT
from components.refill import UNASKED, Refill, finished
from components.storage_survey import StorageLooker
from components.survey import Looker
from components.tunnel import start_seconds
from stacks.claim_checks import claim_cautions, claim_of, claim_problems, class_news
from stacks.problems import Problem, RefusedError
from stacks.resolve import Stack
from stacks.schema import ClusterConfig


def demand(stack: Stack) -> Refill:
    """Refuse what is there and not this stack's, and a cluster whose addresses the walls do not know; warn of the rest.

    Give what the storages need to know of it. Raises RefusedError; also when the cluster cannot be asked, unless the
    offline switch is set.
    """
    if cluster.offline():
        pulumi.log.warn(f"{cluster.OFFLINE}=1: nobody asked the cluster what is there and which addresses it has")
        return UNASKED
    config = stack.config.cluster
    try:
        with cluster.connect(*config.address) as client:
            foreign = list(cluster.foreign(client, stack.owner, stack.namespaces, claims(stack)))
            absent = list(_absent_platform(stack, client))
            view = look(client, config.dns, admin_tier=config.admin_tier)
            live = volumes(client, stack.owner, {s.storage_class for s in stack.storages.values() if s.storage_class})
            done = finished(client, stack.owner, stack.namespaces, live.claims)
    except cluster.UnreachableError as error:
        advice = f"check the kubeconfig and `kubectl --context {config.context} get namespaces`"
        raise RefusedError([Problem("cluster", f"cannot be asked ({error}); {advice}")]) from None
    storages = list(stack.storages.values())
    for warning in (*warnings(stack, view), *claim_cautions(storages, live)):
        pulumi.log.warn(str(warning))
    if problems := [
        *foreign_problems(stack, foreign),
        *absent,
        *refusals(stack, view),
        *claim_problems(storages, live),
    ]:
        raise RefusedError(problems)
    for line in class_news(storages, live) if pulumi.runtime.is_dry_run() else ():
        pulumi.log.info(line)
    return Refill(done, partial(cluster.connect, *config.address))


def foreign_problems(stack: Stack, found: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    """Yield what is not the stack's, as `cluster.foreign` says it, at the part of the stack file that wants it."""
    platform = dict.fromkeys((names.PLATFORM_NAMESPACE, names.ACCESS_NAMESPACE), "platform")
    tenants = {tenant.namespace: f"tenants.{name}" for name, tenant in stack.tenants.items()}
    paths = {f"namespace {name}": path for name, path in {**platform, **tenants}.items()}
    for storage in stack.storages.values():
        at = claim_of(storage)
        paths[f"claim {at.namespace}/{at.name}"] = f"tenants.{storage.tenant}.storages.{storage.name}"
    yield from (Problem(paths.get(what, "tenants"), f"{what} {why}") for what, why in found)


def _absent_platform(stack: Stack, client: Client) -> Iterator[Problem]:
    """Refuse a platform that is in another cluster: tunnel servers are found by their Services' names."""
    said = stack.config.platform_stack
    if said and said.owner != (there := cluster.platform_of(client)):
        held = f"that of stack {there!r}" if there else "none"
        advice = f"compare {PROJECT}:cluster.context of both stacks, and run `up` of {said.owner!r} first"
        yield Problem("platformStack", f"is stack {said.owner!r}, but the platform in this cluster is {held}; {advice}")


def refusals(stack: Stack, view: View) -> Iterator[Problem]:
    """Yield what the walls cannot be built with: public addresses that no list has, a kind that the cluster lacks."""
    config = stack.config
    for key, advice in unlisted(view, (*config.cluster.cidrs, *config.egress.blocked_cidrs)):
        yield Problem(f"cluster.{key}", advice)
    if stack.tunnel:
        for key, advice in unreached(view, config.cluster.api_server_cidrs, config.cluster.api_server_ports):
            yield Problem(f"cluster.{key}", advice)
    if stack.proxy:
        for key, advice in unasked(view, config.cluster.pod_cidrs):
            yield Problem(f"cluster.{key}", advice)
    if config.cluster.admin_tier and view.admin_tier is None and "admin_tier" not in view.forbidden:
        lacks = "the cluster does not serve ClusterNetworkPolicy of policy.networking.k8s.io/v1alpha2"
        yield Problem("cluster.adminTier", f"{lacks}; install its CRD where the network plugin knows it, or say false")
    for name in _foreign_policies(stack, view):
        yield Problem("cluster.adminTier", f"ClusterNetworkPolicy {name}; remove it, or choose another namespacePrefix")


def _foreign_policies(stack: Stack, view: View) -> Iterator[str]:
    """Yield name and owner of each policy of a name of ours that is not ours; they belong to no namespace."""
    if view.admin_tier:
        kinds = ((manifest["kind"], manifest["metadata"]["name"]) for manifest in stack.manifests())
        wanted = {name for kind, name in kinds if kind == "ClusterNetworkPolicy"}
        metas = [meta for policy in view.admin_tier if (meta := policy.metadata) and meta.name in wanted]
        why = ((meta.name, cluster.not_ours(stack.owner, meta.labels)) for meta in metas)
        yield from (f"{name} {reason}" for name, reason in why if reason)


def warnings(stack: Stack, view: View) -> Iterator[Problem]:
    """Yield what is probably wrong, and what nobody could check."""
    for key, advice in dns_warnings(view, stack.config.cluster.dns):
        yield Problem(f"cluster.{key}", advice)
    if view.forbidden:
        said = f"you may not list {', '.join(view.unseen)}, so nobody checked that the walls know every address there"
        yield Problem("cluster", f"{said}; get that right, or compare the lists by hand")


def claims(stack: Stack) -> list[Claim]:
    """Name the claims that the stack makes or adopts."""
    return [claim_of(storage) for storage in stack.storages.values()]


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


def hooks(stack: Stack) -> tuple[pulumi.ResourceHook | None, pulumi.ResourceHook | None]:
    """Give the hooks that need the cluster: new keys take effect at once, a tunnel server has rolled; none offline."""
    if cluster.offline():
        return None, None
    where = stack.config.cluster.address
    patience = start_seconds(stack.tunnel.spec) if stack.tunnel else 0
    return keys_now.keys_hook(*where), rolled.rolled_hook(*where, patience)


def looker(stack: Stack) -> Looker:
    """Give what looks at the stack's units while the engine runs."""
    ssh = stack.config.ssh
    return Looker(*stack.config.cluster.address, stack.owner, tier=ssh.server is None, gated=ssh.gated)


def storage_looker(stack: Stack) -> StorageLooker:
    """Give what looks at the stack's storages while the engine runs."""
    return StorageLooker(*stack.config.cluster.address, stack.owner)
