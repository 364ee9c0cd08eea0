"""Before anything is registered: what the cluster shows that refuses a stack, and what only warns."""

from pathlib import Path
from typing import Any

import pulumi
import pytest
from lightkube.models.core_v1 import NodeSpec, PodIP, PodSpec, PodStatus
from lightkube.models.discovery_v1 import Endpoint, EndpointPort
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Node, Pod
from lightkube.resources.discovery_v1 import EndpointSlice

from components import cluster, cluster_view
from components.cluster import UnreachableError
from components.cluster_storage import Volumes
from components.cluster_view import ADMIN_TIER, View
from stacks import ownership
from stacks.load import parse
from stacks.problems import RefusedError
from stacks.resolve import Stack
from tests.stack_files import FILES, raw

PUBLIC = Node(spec=NodeSpec(podCIDRs=["34.118.0.0/17"]))


def stack(**cluster_keys: Any) -> Stack:
    """Give the local stack with more said of its cluster."""
    said = raw(next(file for file in FILES if file.stem == "Pulumi.local"))
    return Stack(parse({**said, "cluster": {**said["cluster"], **cluster_keys}}, {"gpu-runtime:secret"}), "local")


def test_a_public_range_is_refused_with_the_line_to_add() -> None:
    """The refusal is the line of the stack file, with path and range; once it is there, all is well."""
    view = View(nodes=(PUBLIC,))
    (refused,) = ownership.refusals(stack(), view)

    assert str(refused).startswith("gpu-runtime:cluster.podCidrs: add 34.118.0.0/17, ")
    assert list(ownership.refusals(stack(podCidrs=["10.244.0.0/16", "34.118.0.0/17"]), view)) == []


def test_an_api_server_that_the_gate_does_not_find_is_refused() -> None:
    """The cluster's own word on where its API server answers counts, and the refusal is the line to add."""
    end = Endpoint(addresses=["10.99.0.9"])
    view = View(slices=(EndpointSlice(addressType="IPv4", endpoints=[end], ports=[EndpointPort(port=16443)]),))
    cidrs, ports = ownership.refusals(stack(), view)

    assert str(cidrs).startswith("gpu-runtime:cluster.apiServerCidrs: add 10.99.0.9/32: ")
    assert str(ports).startswith("gpu-runtime:cluster.apiServerPorts: add 16443: ")
    known = stack(apiServerCidrs=["10.99.0.9/32"], apiServerPorts=[16443])
    assert list(ownership.refusals(known, view)) == []


def test_pods_where_the_proxy_asks_nobody_are_refused() -> None:
    """A cluster whose pods have other addresses than the stack file says would show nothing but 503."""
    there = Pod(spec=PodSpec(containers=[]), status=PodStatus(podIPs=[PodIP(ip="10.88.0.7")]))
    (refused,) = ownership.refusals(stack(), View(dns_pods=(there,)))

    assert str(refused).startswith("gpu-runtime:cluster.podCidrs: add the range of 10.88.0.7/32: pods are there")
    assert list(ownership.refusals(stack(podCidrs=["10.88.0.0/16"]), View(dns_pods=(there,)))) == []


def test_an_admin_tier_needs_its_kind() -> None:
    """A stack that wants ClusterNetworkPolicies is refused where no such kind is served, and told what to do."""
    (refused,) = ownership.refusals(stack(adminTier=True), View(admin_tier=None))

    assert str(refused).startswith("gpu-runtime:cluster.adminTier: the cluster does not serve ClusterNetworkPolicy")
    assert list(ownership.refusals(stack(adminTier=True), View(admin_tier=()))) == []
    assert list(ownership.refusals(stack(adminTier=True), View(forbidden=("admin_tier",)))) == []  # nobody knows
    assert list(ownership.refusals(stack(), View())) == []


def test_a_policy_of_the_admin_tier_that_is_not_ours_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies of the cluster have no namespace to own: one of our name without our label is never taken over."""
    name = "gpu-runtime.lab-a"
    monkeypatch.setattr(Stack, "manifests", lambda _: [{"kind": "ClusterNetworkPolicy", "metadata": {"name": name}}])
    theirs = ADMIN_TIER(metadata=ObjectMeta(name=name))
    ours = ADMIN_TIER(metadata=ObjectMeta(name=name, labels={"gpu-runtime/owner": "local"}))
    (refused,) = ownership.refusals(stack(adminTier=True), View(admin_tier=(theirs, ADMIN_TIER(metadata=ObjectMeta()))))

    assert "ClusterNetworkPolicy gpu-runtime.lab-a exists and is not ours" in str(refused)
    assert list(ownership.refusals(stack(adminTier=True), View(admin_tier=(ours,)))) == []


def test_what_nobody_could_check_is_said() -> None:
    """A deployer who may not list nodes is warned in the words of a role, and not refused."""
    view = View(forbidden=("nodes", "dns_pods"))
    (warning,) = ownership.warnings(stack(), view)

    assert "you may not list nodes, pods in the namespace of cluster DNS, so nobody checked" in str(warning)
    assert list(ownership.refusals(stack(), view)) == []


def test_everything_is_told_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One refusal names the foreign namespace, the public range and what no class makes; warnings come before it."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}],"
        " contexts: [{name: rig-test, context: {cluster: c, user: u}}]}"
    )
    said: list[str] = []
    monkeypatch.delenv(cluster.OFFLINE, raising=False)
    monkeypatch.setattr(cluster, "foreign", lambda *_: [("namespace lab-a", "exists and is not ours")])
    monkeypatch.setattr(ownership, "look", lambda *_, **__: View(nodes=(PUBLIC,), forbidden=("slices",)))
    monkeypatch.setattr(ownership, "volumes", lambda *_: Volumes({}, {}))
    monkeypatch.setattr(ownership, "finished", lambda *_: frozenset())
    monkeypatch.setattr(pulumi.log, "warn", said.append)

    with pytest.raises(RefusedError) as refused:
        ownership.demand(stack(kubeconfig=str(kubeconfig)))

    classless = [f"tenants.lab-a.storages.{name}.class" for name in ("dataset", "home")]
    assert [problem.path for problem in refused.value.problems] == ["tenants.lab-a", "cluster.podCidrs", *classless]
    assert "cluster.dns.selector" in said[0]
    assert "endpointslices" in said[1]


def test_what_is_not_ours_is_told_where_the_stack_file_wants_it() -> None:
    """A claim at its storage, a namespace at its tenant; the probe's is at no place of the file."""
    found = ["claim lab-a/storage-home", "namespace lab-a", "namespace gpu-runtime-probe-local"]
    told = ownership.foreign_problems(stack(), [(what, "is not ours") for what in found])

    assert [problem.path for problem in told] == ["tenants.lab-a.storages.home", "tenants.lab-a", "tenants"]


def test_a_cluster_that_breaks_off_during_the_look_is_one_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever question gets no answer: the cluster cannot be asked, and the advice is the same."""

    def silent(*_: object) -> None:
        raise UnreachableError("connection refused")

    monkeypatch.delenv(cluster.OFFLINE, raising=False)
    monkeypatch.setattr(cluster, "connect", silent)

    with pytest.raises(RefusedError, match=r"cannot be asked \(connection refused\); check the kubeconfig"):
        ownership.demand(stack())


def test_every_question_has_its_words() -> None:
    """What may not be seen is told in words for each question that there is."""
    fields = {name for name in View.__dataclass_fields__ if name != "forbidden"}

    assert set(cluster_view.WORDS) == fields
