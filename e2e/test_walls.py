"""The walls measured: what the evaluator computes from the rendered policies is what real sockets find, cell by cell.

Every place is first reached from where no policy is between: else that it is closed would prove nothing.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lightkube.codecs import from_dict
from lightkube.resources.networking_v1 import NetworkPolicy

from e2e.measured import HOSTS, Ground, Key, differing, ground, key, measured, possible, proved
from e2e.world import World
from tools.rig.enforcement import settle
from tools.stack import local
from tools.stack.engine import REPOSITORY
from tools.stack.workspace import Workspace
from tools.walls.matrix import Cell
from tools.walls.places import NODE_PORT, Place

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def yard(walls: World) -> Iterator[Ground]:
    """Give the stack of two tenants, a running pod for each that it renders."""
    with ground(walls) as found:
        yield found


@pytest.fixture(scope="module")
def cells(yard: Ground) -> list[Cell]:
    return list(yard.matrix().cells())


@pytest.fixture(scope="module")
def known(yard: Ground, cells: list[Cell]) -> frozenset[Key]:
    """Give the cells that open while nobody enforces policies."""
    return proved(yard, cells)


def test_every_place_answers_without_walls(yard: Ground, cells: list[Cell], known: frozenset[Key]) -> None:
    """Each pod reaches every place while policies are ignored; only addresses that no host can have are left out."""
    silent = [(*key(cell), cell.place.name) for cell in cells if key(cell) not in known]
    expected = [(*key(cell), cell.place.name) for cell in cells if nobody(yard, cell.place)]
    there = [cell.place for cell in cells if key(cell) in known]

    assert [one for one in silent if one not in expected] == []
    assert {place.address.version for place in there} == {one.version for one in yard.site.nodes}
    assert {place.protocol for place in there} == {"TCP", "UDP"}
    assert {place.group for place in there} == {cell.place.group for cell in cells}


def nobody(yard: Ground, place: Place) -> bool:
    """Say whether nobody can answer there: no host's address, an unused one of the cluster, a port not served."""
    unserved = place.name.startswith(NODE_PORT) and place.address.version == 6
    return unserved or (place.group in HOSTS and not possible(yard, place))


def test_computed_equals_measured(yard: Ground, cells: list[Cell], known: frozenset[Key]) -> None:
    """From every pod to every place, TCP and UDP, IPv4 and IPv6: open where computed open, closed where closed."""
    found = measured(yard, cells, known)

    assert len(found) > 1000
    assert any(found.values())
    assert differing(cells, found) == []


def policies(yard: Ground) -> list[dict[str, Any]]:
    return [manifest for manifest in yard.stack.manifests() if manifest["kind"] == "NetworkPolicy"]


def telling(yard: Ground, cells: list[Cell], namespace: str) -> tuple[dict[str, Any], list[Cell]]:
    """Give a policy of *namespace* whose loss changes the matrix, and the matrix without it."""
    for policy in policies(yard):
        if policy["metadata"]["namespace"] == namespace:
            rest = list(yard.matrix([one for one in yard.stack.manifests() if one != policy]).cells())
            if [cell.open for cell in rest] != [cell.open for cell in cells]:
                return policy, rest
    raise AssertionError(f"no policy of {namespace} is for anything")


@pytest.mark.parametrize("namespace", ["gpu-runtime", "lab-b"])
def test_a_lost_policy_is_measured(yard: Ground, cells: list[Cell], known: frozenset[Key], namespace: str) -> None:
    """Where a policy is taken away on the cluster, measured differs from computed, as computed without it."""
    policy, rest = telling(yard, cells, namespace)
    client, rig = yard.world.cluster, yard.world.rig
    client.delete(NetworkPolicy, policy["metadata"]["name"], namespace=namespace)
    try:
        settle(rig)
        without = measured(yard, rest, known)
    finally:
        client.create(from_dict(policy))
        settle(rig)

    assert differing(cells, without) != []
    assert differing(rest, without) == []


def test_a_policy_that_somebody_adds_is_measured(yard: Ground, cells: list[Cell], known: frozenset[Key]) -> None:
    """A later policy that opens all to one tenant opens what is computed with it, and nothing of the other's."""
    later = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "later", "namespace": "lab-a"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]},
    }
    client, rig = yard.world.cluster, yard.world.rig
    more = list(yard.matrix([*yard.stack.manifests(), later]).cells())
    client.create(from_dict(later))
    try:
        settle(rig)
        after = measured(yard, more, known)
    finally:
        client.delete(NetworkPolicy, "later", namespace="lab-a")
        settle(rig)

    assert len(differing(cells, after)) > 100
    assert differing(more, after) == []


def test_the_local_stack_is_as_computed(walls: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The stack of `make up` too: computed equals measured. It takes the place of the other on the rig."""
    local.down(walls.workspace, walls.rig, keep_rig=True)
    folder: Path = tmp_path_factory.mktemp("local")
    workspace = Workspace(folder, "local", REPOSITORY / "stacks" / "Pulumi.local.yaml")
    world = replace(walls, workspace=workspace)
    try:
        world.up()
        with ground(world) as there:
            cells = list(there.matrix().cells())
            found = measured(there, cells, proved(there, cells))
    finally:
        world.close()

    assert len(found) > 500
    assert differing(cells, found) == []
