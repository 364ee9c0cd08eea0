"""Whether the policies in the cluster are those of the stack: one may be gone, changed, or somebody else's by now."""

from collections.abc import Iterable, Iterator
from typing import Any

from lightkube import ApiError, Client, codecs
from lightkube.resources.networking_v1 import NetworkPolicy

from components.model import Manifest
from stacks.resolve import Stack
from tools.shell import ToolError

FORBIDDEN = 403
SHOWN = 6
"""Policies named in the refusal."""

Key = tuple[str, str]
"""Namespace and name."""


def compare(client: Client, stack: Stack) -> None:
    """Compare the NetworkPolicies of all namespaces of *stack* with those that it renders.

    Raises ToolError where one is missing, is another, or opens something and is not the stack's.
    """
    if found := list(differing(client, stack.manifests())):
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        advice = (
            f"`make up STACK={stack.owner} REFRESH=1` restores what is missing or changed; "
            "`kubectl delete networkpolicy -n NAMESPACE NAME` removes what is not the stack's"
        )
        raise ToolError(f"the walls are not as the stack says: {', '.join(found[:SHOWN])}{more}; {advice}")


def differing(client: Client, manifests: Iterable[Manifest]) -> Iterator[str]:
    """Yield in words each policy in the namespaces of *manifests* that is not as they say."""
    said = list(manifests)
    wanted = {_key(one): _plain(one) for one in said if one["kind"] == "NetworkPolicy"}
    homes = [one["metadata"]["name"] for one in said if one["kind"] == "Namespace"]
    found = {key: spec for policy in _policies(client, homes) for key, spec in [_found(policy)] if key[0] in homes}
    for key, spec in wanted.items():
        if key not in found:
            yield f"{'/'.join(key)} is missing"
        elif found[key] != spec:
            yield f"{'/'.join(key)} was changed"
    for key in found.keys() - wanted.keys():
        if found[key].get("ingress") or found[key].get("egress"):
            yield f"{'/'.join(key)} is not the stack's"


def _policies(client: Client, namespaces: Iterable[str]) -> Iterator[NetworkPolicy]:
    """List policies with one question; with one for each namespace where a deployer may not ask for all."""
    try:
        yield from client.list(NetworkPolicy, namespace="*")
    except ApiError as error:
        if error.status.code != FORBIDDEN:
            raise
        for namespace in namespaces:
            yield from client.list(NetworkPolicy, namespace=namespace)


def _key(manifest: Manifest) -> Key:
    return manifest["metadata"]["namespace"], manifest["metadata"]["name"]


def _plain(manifest: Manifest) -> dict[str, Any]:
    """Give a manifest's spec as it would come back."""
    return _found(codecs.from_dict(manifest))[1]


def _found(policy: Any) -> tuple[Key, dict[str, Any]]:
    meta, plain = policy.metadata, policy.to_dict()
    return (meta.namespace or "", meta.name or ""), plain.get("spec", {})
