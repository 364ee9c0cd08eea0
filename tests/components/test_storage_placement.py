"""Where pods run that fill a volume or show it: where its units do, without a GPU of their own."""

from dataclasses import replace
from typing import Any

import pytest

from components.flavor import ClaimSpec, Flavor, TolerationSpec
from components.storage_placement import ANYWHERE, Consumer, PlacementSpec, PodPlacement, pod_placement

SIZE: dict[str, Any] = {"cpu": "8", "memory": "64Gi"}
DEDICATED = TolerationSpec(key="dedicated", operator="Equal", value="lab", effect="NoExecute")
H100 = Flavor(**SIZE, node_selector={"gpu": "h100", "zone": "a"}, tolerations=(DEDICATED,))
A100 = Flavor(**SIZE, node_selector={"gpu": "a100", "zone": "a"})
CPU = Flavor(**SIZE, gpus=0, node_selector={"pool": "cpu"})
FLAVORS = {"h100": H100, "a100": A100, "cpu": CPU}
TRAINER = Consumer("trainer", H100, {"rack": "7"})
NOTEBOOK = Consumer("notebook", A100)
GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def placed(*units: Consumer, said: PlacementSpec | None = None, one_node: bool = True) -> PodPlacement:
    """Place the pods of a storage."""
    return pod_placement(said, FLAVORS, units, one_node=one_node)


def test_data_lands_where_its_unit_runs() -> None:
    """The nodes of the unit, its flavor's and its own; what keeps GPU nodes free of other pods is tolerated."""
    found = placed(TRAINER).manifest

    assert found["nodeSelector"] == {"gpu": "h100", "zone": "a", "rack": "7"}
    assert found["tolerations"] == [DEDICATED.manifest, GPU_TAINT]
    assert set(found) == {"nodeSelector", "tolerations"}  # and no GPU is requested


def test_a_storage_without_units_may_be_anywhere() -> None:
    """Nobody says where its data is needed, so that the scheduler decides."""
    assert placed() == ANYWHERE
    assert (ANYWHERE.manifest, ANYWHERE.with_unit) == ({}, {})


def test_units_of_several_flavors_agree_where_they_can() -> None:
    """A volume of many nodes lands where the labels hold that all its units want; all their taints are stood."""
    found = placed(TRAINER, NOTEBOOK, one_node=False)

    assert found.node_selector == {"zone": "a"}
    assert found.tolerations == (DEDICATED.manifest, GPU_TAINT)
    assert found.beside is None


@pytest.mark.parametrize(
    ("said", "selector", "tolerations"),
    [
        (PlacementSpec(flavor="a100"), {"gpu": "a100", "zone": "a"}, [GPU_TAINT]),
        (PlacementSpec(flavor="cpu"), {"pool": "cpu"}, []),
        (
            PlacementSpec(node_selector={"disk": "nvme"}, tolerations=(DEDICATED,)),
            {"disk": "nvme"},
            [DEDICATED.manifest],
        ),
        (PlacementSpec(), {}, []),
    ],
)
def test_what_is_said_of_a_storage_counts(
    said: PlacementSpec, selector: dict[str, str], tolerations: list[dict[str, Any]]
) -> None:
    """A placement of its own stands in the place of its units'; an empty one frees it of them."""
    found = placed(TRAINER, said=said, one_node=False)

    assert found.manifest == {
        key: value for key, value in {"nodeSelector": selector, "tolerations": tolerations}.items() if value
    }


def test_who_shows_a_volume_of_one_node_goes_to_its_unit() -> None:
    """While the unit runs, its node has the volume: the storage's own labels are then not asked for, the unit's are."""
    found = placed(TRAINER, said=PlacementSpec(flavor="cpu")).with_unit
    (term,) = found["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]

    assert term["labelSelector"]["matchLabels"] == {
        "app.kubernetes.io/component": "unit",
        "app.kubernetes.io/instance": "trainer",
    }
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert found["tolerations"] == [DEDICATED.manifest, GPU_TAINT]
    assert found["nodeSelector"] == {"gpu": "h100", "zone": "a", "rack": "7"}


@pytest.mark.parametrize(
    ("flavor", "selector"), [(A100, {"rack": "7"}), (H100, {"rack": "8"}), (H100, {}), (CPU, {})], ids=str
)
def test_who_shows_a_volume_of_one_node_moves_with_its_unit(flavor: Flavor, selector: dict[str, str]) -> None:
    """Where the unit goes to other nodes, it has another pod, which the nodes that the unit leaves do not take."""
    left, found = placed(TRAINER).with_unit, placed(Consumer("trainer", flavor, selector)).with_unit

    assert found != left
    assert found["nodeSelector"] == {**flavor.node_selector, **selector}


def test_a_unit_that_stays_keeps_who_shows_its_volume() -> None:
    """What is no matter of nodes' labels replaces no pod of the browser."""
    other = H100.model_copy(update={"cpu": "4", "memory": "1Gi", "priority_class": "low"})

    assert placed(Consumer("trainer", other, {"rack": "7"})).with_unit == placed(TRAINER).with_unit


def test_a_unit_at_rest_binds_nobody() -> None:
    """`running: false` frees the volume: it is shown where the nodes are that its unit will run on."""
    found = placed(replace(TRAINER, running=False))

    assert found.with_unit == found.manifest == placed(TRAINER).manifest


def test_a_share_and_a_claim_taint_no_node() -> None:
    """Only GPUs by device plugins name the taint of their nodes; memory and cores of one, and claims, do not."""
    share = Flavor(**SIZE, beside={"nvidia.com/gpumem": 8000})
    claimed = Flavor(**SIZE, claim=ClaimSpec(device_class="gpu.nvidia.com"))

    assert placed(Consumer("a", share)).tolerations == (GPU_TAINT,)
    assert placed(Consumer("a", claimed)).tolerations == ()
