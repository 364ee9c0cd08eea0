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

from e2e.measured import HOSTS, Ground, Measurement, ground, measure, possible
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
def found(yard: Ground, cells: list[Cell]) -> Measurement:
    return measure(yard, cells)


def test_every_place_is_proved_to_answer(yard: Ground, cells: list[Cell], found: Measurement) -> None:
    """All that is measured answers where no wall is; only addresses that no host can have are left out."""
    places = dict.fromkeys(cell.place for cell in cells)

    assert [place for place in places if place not in found.proved and not nobody(yard, place)] == []
    assert {place.address.version for place in found.proved} == {one.version for one in yard.site.nodes}
    assert {place.protocol for place in found.proved} == {"TCP", "UDP"}
    assert {place.group for place in found.proved} == {place.group for place in places}


def nobody(yard: Ground, place: Place) -> bool:
    """Say whether nobody can answer there: no host's address, an unused one of the cluster, a port not served."""
    unserved = place.name.startswith(NODE_PORT) and place.address.version == 6
    return unserved or (place.group in HOSTS and not possible(yard, place))


def test_computed_equals_measured(cells: list[Cell], found: Measurement) -> None:
    """From every pod to every place, TCP and UDP, IPv4 and IPv6: open where computed open, closed where closed."""
    assert len(found.opened) > 1000
    assert any(found.opened.values())
    assert found.differing(cells) == []


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
def test_a_lost_policy_is_measured(yard: Ground, cells: list[Cell], namespace: str) -> None:
    """Where a policy is taken away on the cluster, measured differs from computed, as computed without it."""
    policy, rest = telling(yard, cells, namespace)
    client, rig = yard.world.cluster, yard.world.rig
    client.delete(NetworkPolicy, policy["metadata"]["name"], namespace=namespace)
    try:
        settle(rig)
        without = measure(yard, rest)
    finally:
        client.create(from_dict(policy))
        settle(rig)

    assert without.differing(cells) != []
    assert without.differing(rest) == []


def test_a_policy_that_somebody_adds_is_measured(yard: Ground, cells: list[Cell]) -> None:
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
        after = measure(yard, more)
    finally:
        client.delete(NetworkPolicy, "later", namespace="lab-a")
        settle(rig)

    assert len(after.differing(cells)) > 100
    assert after.differing(more) == []


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
            found = measure(there, cells)
    finally:
        world.close()

    assert len(found.opened) > 500
    assert found.differing(cells) == []
