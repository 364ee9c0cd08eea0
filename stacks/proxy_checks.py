"""Problems of the proxy: what it needs, and who would need it."""

from collections.abc import Collection, Iterator, Mapping

from components.names import PROJECT
from components.proxy_spec import ProxyLimitsSpec
from components.storage_spec import StorageSpec
from stacks.problems import Problem, Raw, table, valid
from stacks.schema import PROXY_IMAGES, ClusterConfig

ADVICE = f"say {PROJECT}:platform.browser: {{host: files.example.com}}"


def proxy_problems(raw: Raw, images: Collection[str], storages: Mapping[str, StorageSpec | None]) -> Iterator[Problem]:
    """Yield what is wrong with the proxy of *raw*, or its absence; *storages* by ``<storage>.<tenant>``."""
    platform, other = table(raw.get("platform")), table(raw.get("platformStack"))
    if platform.get("browser") is not None:
        yield from _images(images)
        yield from _pods(raw)
        yield from _limits(valid(ProxyLimitsSpec, table(platform["browser"]).get("limits", {})))
    elif other.get("browser") is None:
        yield from _unseen(storages, at_platform="platformStack" in raw)


def _images(images: Collection[str]) -> Iterator[Problem]:
    if missing := sorted(set(PROXY_IMAGES) - set(images)):
        yield Problem(
            "images",
            f"lacks {', '.join(missing)}, which {PROJECT}:platform.browser needs; "
            "`make images PUSH=<registry>` builds them and prints lines",
        )


def _pods(raw: Raw) -> Iterator[Problem]:
    cluster = valid(ClusterConfig, raw.get("cluster", {}))
    if cluster and not cluster.pod_cidrs:
        where = "`kubectl get pods -A -o wide` shows some of their addresses"
        yield Problem("cluster.podCidrs", f"is missing: the proxy asks pods in these ranges and nobody else; {where}")


def _limits(limits: ProxyLimitsSpec | None) -> Iterator[Problem]:
    """Refuse a share of one source that is all, said or not: then one source shuts out everybody."""
    if limits and limits.of_source >= limits.connections:
        yield Problem(
            "platform.browser.limits.connectionsPerSource",
            f"is {limits.of_source}, and limits.connections is {limits.connections}: "
            "one source could shut out everybody; say less here, or more there",
        )


def _unseen(storages: Mapping[str, StorageSpec | None], *, at_platform: bool) -> Iterator[Problem]:
    """Refuse browsers that nobody would reach."""
    advice = f"the stack of the platform should {ADVICE}" if at_platform else ADVICE
    for alias, spec in storages.items():
        if spec is not None and spec.browser is not None:
            storage, _, tenant = alias.partition(".")
            yield Problem(
                f"tenants.{tenant}.storages.{storage}.browser", f"nobody would reach it: there is no proxy; {advice}"
            )
