"""A rig whose policies are ignored for a while."""

from collections.abc import Iterator
from subprocess import CompletedProcess

import pytest

from tests.rig.cluster import Cluster, knock
from tools.rig import RigError, Status, enforcement, outside, settle, unenforced

HOST = "203.0.113.7"
DOORS = [(HOST, 80)]
FOREVER = "600"


def test_a_pod_that_ended_or_is_the_nodes_own_is_not_waited_for() -> None:
    """kube-router has rules for neither."""
    status = {"phase": "Running", "podIPs": [{"ip": "10.0.0.5"}, {"ip": "fd00::5"}]}

    assert enforcement.addresses({"spec": {}, "status": status}) == {"10.0.0.5", "fd00::5"}
    assert enforcement.addresses({"spec": {"hostNetwork": True}, "status": status}) == set()
    assert enforcement.addresses({"spec": {}, "status": {**status, "phase": "Succeeded"}}) == set()


def test_a_rig_that_does_not_run_is_not_taken_for_unenforced() -> None:
    """Where kube-router cannot be stopped, nobody is told that policies are ignored now."""

    class Ended:
        def exec(self, *argv: str, stdin: str | None = None, check: bool = True) -> CompletedProcess[str]:
            del stdin, check
            return CompletedProcess(argv, 1, "", "")

    with pytest.raises(RigError), unenforced(Ended()):
        pytest.fail("it was entered")


@pytest.fixture
def denied(cluster: Cluster) -> Iterator[str]:
    """Give a namespace whose pods may do nothing, and a host outside."""
    with outside(cluster.rig, HOST):
        yield cluster.namespace("ignored", denied=True)
    cluster.remove("ignored")


def reached(cluster: Cluster, namespace: str, name: str) -> int:
    """Return how often a new pod of that name gets through to the host."""
    cluster.start(namespace, [name], *knock(3, DOORS))
    ((one,),) = cluster.knocks(namespace, [name]).values()
    return one.reached


def inside(cluster: Cluster, namespace: str, name: str) -> bool:
    """Whether a pod that runs gets through to the host now."""
    return bool(cluster.open_doors(namespace, name, DOORS))


def test_policies_are_ignored_for_a_while_and_hold_again(cluster: Cluster, denied: str) -> None:
    """Old pods and new ones get through, to hosts and pods, and after that none does, also none that came meanwhile."""
    cluster.start(denied, ["old"], FOREVER, "listen", "80")
    cluster.ready(denied, "old")
    settle(cluster.rig)
    assert not inside(cluster, denied, "old")

    with unenforced(cluster.rig):
        assert cluster.rig.status().state == "sick"
        assert "kube-router is stopped, the guard is away" in cluster.rig.status().detail
        assert inside(cluster, denied, "old")
        assert reached(cluster, denied, "new") > 10
        cluster.start(denied, ["meanwhile"], FOREVER, "listen", "80")
        cluster.ready(denied, "meanwhile")

    assert cluster.rig.status() == Status("running")
    assert not inside(cluster, denied, "old")
    assert not inside(cluster, denied, "meanwhile")
    assert not reached(cluster, denied, "newer")


def test_up_puts_right_what_a_killed_test_left(cluster: Cluster, denied: str) -> None:
    """Killed in the middle of `unenforced`, a test leaves a rig that `up` notices and puts right, with its pods."""
    before = cluster.rig.identity
    whole = unenforced(cluster.rig)
    whole.__enter__()
    assert reached(cluster, denied, "new") > 10

    cluster.rig.up()

    assert cluster.rig.status() == Status("running")
    assert cluster.rig.identity == before
    assert not reached(cluster, denied, "newer")
    whole.__exit__(None, None, None)  # also when all is right already
    assert cluster.rig.status() == Status("running")
