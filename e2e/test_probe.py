"""A cluster that does not enforce: it is noticed before a tenant's first pod, and by every later `make up`."""

import re

import pytest
from lightkube import codecs
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Pod
from lightkube.resources.networking_v1 import NetworkPolicy
from typing_extensions import override

from components import names
from e2e.world import WITH_PACK, World, attempt
from tools.probe.fresh import Site, prove
from tools.rig import Rig, unenforced
from tools.shell import ToolError
from tools.stack import local

API = r"API server, [0-9.]+:6443"
LIVE = ("API server", API, "kubelet", "gate", "frps-0", "entrance", "node port of the entrance")
"""Forbidden targets that there are on a rig, as patterns; behind the other addresses is nobody."""


class Unmended(Rig):
    """A rig as any other cluster is: `make up` does not put it right."""

    @override
    def up(self, *, fresh: bool = False) -> Rig:
        return self


def site(world: World) -> Site:
    """Say where the stack is."""
    return Site(world.workspace.stack, str(world.rig.kubeconfig), f"rig-{world.rig.name}")


def pods(world: World) -> set[str]:
    """Name the kinds of pods that tenants have."""
    found = (pod.metadata.labels or {} for pod in world.cluster.list(Pod, namespace="*") if pod.metadata)
    tenants = (labels for labels in found if names.TENANT_LABEL in labels)
    return {labels["app.kubernetes.io/component"] for labels in tenants}


def test_no_pod_of_a_tenant_starts_where_policies_are_ignored(bare_walls: World) -> None:
    """A first `up` fails in the graph, with what answered, and before any unit or prepare job exists."""
    with unenforced(bare_walls.rig):
        status, said = attempt(bare_walls.engine(), "up", "--yes", "--continue-on-error", *WITH_PACK)
        there = pods(bare_walls)

    assert status != 0
    assert f"NetworkPolicies are not enforced: {len(LIVE)} forbidden targets answer a pod in a tenant's walls" in said
    assert {name for name in LIVE if re.search(rf"^ *{name} \(.*: open", said, re.MULTILINE)} == set(LIVE)
    assert there == {"probe"}


def test_walls_that_hold_are_proved_anew(walls: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The `up` after a failed one tries again; a fresh probe then passes too, and leaves nothing behind."""
    prove(site(walls), table=True)
    said = capsys.readouterr().err
    jobs = [job.metadata.name or "" for job in walls.cluster.list(Job, namespace=site(walls).namespace) if job.metadata]

    assert pods(walls) == {"prepare", "probe", "unit"}
    assert "walls hold: " in said
    assert "OPEN" not in said
    assert len(jobs) == 1
    assert not jobs[0].startswith("probe-fresh-")


def test_a_policy_that_is_gone_or_added_fails_make_up(walls: World) -> None:
    """A policy deleted by hand, and one that opens all, are named; an `up` that refreshes mends the first."""
    policy = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}
    later = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "later", "namespace": "lab-a"},
    }
    walls.cluster.create(codecs.from_dict({**later, "spec": policy}))
    walls.cluster.delete(NetworkPolicy, "default-deny", namespace="lab-b")
    with pytest.raises(ToolError, match="lab-b/default-deny is missing, lab-a/later is not the stack's") as refused:
        walls.up()
    walls.cluster.delete(NetworkPolicy, "later", namespace="lab-a")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(local.REFRESH, "1")
        walls.up()

    assert "REFRESH=1" in str(refused.value)


def test_enforcement_that_stops_later_fails_make_up(walls: World, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing of ours changed, so the graph has nothing to do: the fresh probe of each `make up` sees it."""
    with unenforced(walls.rig), pytest.raises(ToolError) as refused:
        local.up(walls.workspace, Unmended(walls.rig.name))
    said = capfd.readouterr()

    told = f"policies are not enforced on this cluster: API server, {API}, kubelet, gate, "
    assert re.match(told, str(refused.value))
    assert re.search(r"^Resources:\n +\d+ unchanged$", said.out, re.MULTILINE)
    assert "login to" not in said.err
    prove(site(walls))
