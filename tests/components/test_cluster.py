"""The program's look at the cluster: whose namespaces and claims are there."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from lightkube import Client
from lightkube.config.kubeconfig import KubeConfig

from components import cluster
from components.cluster import Claim, UnreachableError

OURS = {"gpu-runtime/owner": "prod", "gpu-runtime/tenant": "lab-a"}


NAMESPACES = {"gpu-runtime": None, "lab-a": "lab-a"}


def answering(namespaces: list[Any], claims: list[Any]) -> Client:
    """Connect to an API server that has these objects."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        items = namespaces if request.url.path.endswith("/namespaces") else claims
        return httpx2.Response(200, json={"items": items, "metadata": {}})

    return client(answer)


def client(answer: Any) -> Client:
    """Connect to what *answer* plays."""
    config = KubeConfig.from_dict(
        {
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        }
    )
    return Client(config=config.get("x"), transport=httpx2.MockTransport(answer))


def thing(name: str, labels: dict[str, str] | None, phase: str = "Active", namespace: str | None = None) -> Any:
    """Give an object as the API server would."""
    return {"metadata": {"name": name, "labels": labels, "namespace": namespace}, "status": {"phase": phase}}


def found(client: Client) -> list[str]:
    """Name what stands in the way of stack prod with tenant lab-a and its storage home."""
    claims = [Claim("lab-a", "storage-home")]
    return [f"{what}: {why}" for what, why in cluster.foreign(client, "prod", NAMESPACES, claims)]


def test_an_empty_cluster_is_free() -> None:
    """Where nothing of that name is, nothing stands in the way; other people's things do not matter."""
    others = [thing("kube-system", None), thing("web", {"team": "x"})]

    assert found(answering(others, [thing("storage-home", None, namespace="web")])) == []


def test_what_we_retained_is_adopted() -> None:
    """A namespace and a claim with our owner label were retained by an earlier life of this stack."""
    assert found(answering([thing("lab-a", OURS)], [thing("storage-home", OURS, namespace="lab-a")])) == []


@pytest.mark.parametrize(
    ("labels", "why"),
    [(None, "exists and is not ours"), ({"gpu-runtime/owner": "dev"}, "belongs to stack 'dev'")],
    ids=["somebody else's", "another stack's"],
)
def test_what_is_not_ours_is_refused(labels: dict[str, str] | None, why: str) -> None:
    """A namespace or claim without our owner label is never adopted; the refusal says whose it is."""
    namespaces = found(answering([thing("lab-a", labels)], []))
    claims = found(answering([thing("lab-a", OURS)], [thing("storage-home", labels, namespace="lab-a")]))

    reason = why + (" (no label gpu-runtime/owner)" if labels is None else "")

    assert [text.partition(";")[0] for text in namespaces + claims] == [
        f"namespace lab-a: {reason}",
        f"claim lab-a/storage-home: {reason}",
    ]


@pytest.mark.parametrize(
    ("tenant", "why"),
    [
        ("a", "belongs to tenant 'a' of this stack, and not to tenant 'lab-a'"),
        (None, "says of no tenant (no label gpu-runtime/tenant), and not to tenant 'lab-a'"),
    ],
)
def test_what_another_tenant_left_is_refused(tenant: str | None, why: str) -> None:
    """One stack's tenants may come to one namespace by turns (another prefix): none gets what another wrote."""
    labels = {"gpu-runtime/owner": "prod", **({"gpu-runtime/tenant": tenant} if tenant else {})}
    namespaces = found(answering([thing("lab-a", labels)], []))
    claims = found(answering([thing("lab-a", OURS)], [thing("storage-home", labels, namespace="lab-a")]))

    assert namespaces == [
        f"namespace lab-a: {why}; choose another tenant name or set gpu-runtime:namespacePrefix",
    ]
    assert claims == [f"claim lab-a/storage-home: {why}; rename the storage or move that claim away"]


def test_the_platforms_namespaces_have_no_tenant() -> None:
    """They are adopted by their stack."""
    assert found(answering([thing("gpu-runtime", {"gpu-runtime/owner": "prod"})], [])) == []


def test_a_namespace_that_is_being_deleted_is_waited_for() -> None:
    """Even our own namespace is refused while it goes: what is put into it would go with it."""
    assert "is being deleted" in found(answering([thing("lab-a", OURS, "Terminating")], []))[0]


def test_a_cluster_that_does_not_answer_is_unreachable() -> None:
    """No answer, and an answer that refuses, both end in a refusal: what cannot be checked is not known to be ours."""

    def silent(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("connection refused", request=request)

    def forbidden(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(403, json={"kind": "Status", "message": "namespaces is forbidden", "code": 403})

    for answer in (silent, forbidden):
        with pytest.raises(UnreachableError):
            found(client(answer))


def test_a_missing_kubeconfig_or_context_is_named(tmp_path: Path) -> None:
    """The refusal names the file and the context that were looked for."""
    with pytest.raises(UnreachableError, match=r"nowhere.*prod-gpu"):
        cluster.connect(str(tmp_path / "nowhere"), "prod-gpu")

    file = tmp_path / "config"
    file.write_text("apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n")
    with pytest.raises(UnreachableError, match="prod-gpu"):
        cluster.connect(str(file), "prod-gpu")
