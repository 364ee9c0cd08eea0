"""What is there already speaks against a stack file, before anything is tried."""

from dataclasses import replace
from typing import Any

import pytest

from components.cluster import Claim
from components.cluster_storage import LiveClaim, VolumeClass, Volumes
from components.storage_spec import Storage, StorageSpec
from stacks.claim_checks import claim_cautions, claim_problems, class_news
from tests.components.test_objects import STORAGE

AT = Claim("lab-a", "storage-dataset")
LIVE = LiveClaim(AT, "lab-a", "dataset", "200Gi", "200Gi", "fast", ("ReadWriteOnce",))
FAST = VolumeClass("fast", "example.com/disk", "WaitForFirstConsumer", expands=True)
RIGID = VolumeClass("rigid", "example.com/local", default=True)
CLASSES = {"fast": FAST, "rigid": RIGID}
DATASET = "gpu-runtime:tenants.lab-a.storages.dataset"


def wanted(size: str = "200Gi", **said: Any) -> Storage:
    """Give the storage as a stack file has it now."""
    return replace(STORAGE, spec=StorageSpec(size=size), **said)


def told(storage: Storage, live: LiveClaim | None = LIVE, **seen: Any) -> list[str]:
    """Say what speaks against *storage* where *live* is there."""
    found = Volumes({live.at: live} if live else {}, **{"classes": CLASSES, **seen})
    return [str(problem) for problem in claim_problems([storage], found)]


def test_what_fits_is_left_alone() -> None:
    """The same size in other words, growth of a class that can, no class said: nothing speaks against it."""
    assert told(wanted()) == []
    assert told(wanted("204800Mi")) == []
    assert told(wanted("1Ti")) == []
    assert told(wanted(storage_class=None)) == []
    assert told(wanted(), None) == []


def test_nothing_shrinks() -> None:
    """A smaller volume is refused with both sizes, and with the way to a smaller one."""
    (said,) = told(wanted("100Gi"))

    assert said.startswith(f"{DATASET}.size: 100Gi is less than the 200Gi that its claim has")
    assert "say 200Gi or more, or make a second storage" in said


def test_a_growth_that_never_came_true_may_be_taken_back() -> None:
    """Kubernetes lets a claim ask for less as long as that is more than the volume has."""
    stuck = replace(LIVE, size="900Gi")
    (said,) = told(wanted("200Gi"), stuck)

    assert told(wanted("300Gi"), stuck) == []
    assert "it has 200Gi still, and may ask for anything above that" in said


@pytest.mark.parametrize(
    ("live", "reason"),
    [
        (replace(LIVE, storage_class="rigid"), "its class rigid does not say allowVolumeExpansion: true"),
        (replace(LIVE, storage_class="old"), "its class old is gone"),
        (replace(LIVE, storage_class=None), "it has no storage class"),
    ],
)
def test_growth_that_cannot_be_is_refused_before_it_is_tried(live: LiveClaim, reason: str) -> None:
    """A class that cannot grow a volume is named, with the size that it has."""
    (said,) = told(wanted("300Gi", storage_class=None), live)

    assert said.startswith(f"{DATASET}.size: 300Gi: its claim has 200Gi and cannot grow, since {reason}")


def test_a_claim_without_a_volume_keeps_its_size() -> None:
    """Kubernetes changes no claim that is not bound; one that holds nothing may be deleted."""
    unbound = replace(LIVE, capacity=None)

    for size in ("100Gi", "300Gi"):
        (said,) = told(wanted(size), unbound)
        assert "is not bound, and cannot change so; say 200Gi until a pod has mounted it" in said
    assert told(wanted(), unbound) == []


def test_class_and_access_mode_stay() -> None:
    """Both are for the life of a claim; the refusal says what it has."""
    (by_class,) = told(wanted(storage_class="rigid"))
    (by_mode,) = told(wanted(access_mode="ReadWriteMany"))

    assert by_class.startswith(f"{DATASET}.class: 'rigid': its claim has class 'fast', which never changes; say class:")
    assert by_mode.startswith(f"{DATASET}.accessMode: ReadWriteMany: its claim has ReadWriteOnce, which never changes")
    (said,) = told(wanted(storage_class="fast"), replace(LIVE, storage_class=None))
    assert "its claim has no class" in said


def test_a_claim_that_goes_is_waited_for() -> None:
    """Nothing else is said of a claim that is being deleted."""
    (said,) = told(wanted("1Gi"), replace(LIVE, going=True))

    assert said == f"{DATASET}: its claim lab-a/storage-dataset is being deleted; wait until it is gone"


def test_a_new_claim_needs_a_class() -> None:
    """Without a default class, or with a name that is none, no claim is made that nobody would ever bind."""
    (unnamed,) = told(wanted(storage_class=None), None, classes={"fast": FAST})
    (unknown,) = told(wanted(storage_class="fats"), None)

    assert unnamed.startswith(f"{DATASET}.class: is missing, and the cluster has no default storage class; name one")
    assert unnamed.endswith("it has fast")
    assert unknown == f"{DATASET}.class: 'fats' is no storage class of this cluster, which has fast, rigid"
    assert told(wanted(storage_class=None), None) == []


def test_volumes_made_by_hand_need_no_class() -> None:
    """A class's name may stand for volumes that somebody made, and where nobody may look, it might."""
    assert told(wanted(storage_class="manual"), None, by_hand=frozenset({"manual"})) == []
    assert told(wanted(storage_class="manual"), None, by_hand=None) == []


def test_what_nobody_may_list_is_said() -> None:
    """Without the list of classes nothing of them is refused, and that is told once."""
    found = Volumes({AT: LIVE})
    (caution,) = claim_cautions([wanted()], found)

    assert told(wanted("1Ti"), classes=None) == []
    assert told(wanted(storage_class="any"), None, classes=None) == []
    assert str(caution).startswith("gpu-runtime:storage: you may not list storageclasses")
    assert list(claim_cautions([], found)) == []
    assert list(claim_cautions([wanted()], replace(found, classes=CLASSES))) == []


def test_what_is_protected_does_not_leave() -> None:
    """A protected storage that the stack file no longer has is refused, with the two steps that take it out."""
    protected = Volumes({AT: replace(LIVE, protected=True)}, CLASSES)
    (said,) = claim_problems([], protected)

    assert str(said).startswith(f"{DATASET}: is no longer there, but its claim lab-a/storage-dataset is protected")
    assert "`protect: false`" in str(said)
    assert list(claim_problems([wanted()], protected)) == []
    assert list(claim_problems([], Volumes({AT: LIVE}, CLASSES))) == []


def test_classes_are_told_with_what_they_can_do() -> None:
    """Each class that is used is told once, the one that a claim has before the one that it would get."""
    other = replace(wanted(storage_class=None), name="home")
    found = Volumes({AT: LIVE}, CLASSES)

    assert list(class_news([wanted(storage_class=None), other], found)) == [
        f"storage class {FAST.text}; for dataset.lab-a",
        f"storage class {RIGID.text}; for home.lab-a",
    ]
    assert list(class_news([wanted()], Volumes({}))) == []
