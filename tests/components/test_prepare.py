"""What fills a storage: its Job, what the Job is named by, and where its pod goes."""

from dataclasses import replace
from typing import Any

import pytest
from status.storage_objects import JOB_ANNOTATION, REVISION_ANNOTATION, SHOWN_ANNOTATION
from status.storage_objects import PREPARE as CONTAINER

from components import names
from components.browser_spec import BrowserSpec
from components.bundle import Bundle
from components.gpu_storage import storage_manifests
from components.model import Manifest, RunAs
from components.prepare_spec import FileSpec, HttpPrepare, ImagePrepare, Prepare, StoragePrepare
from components.storage_placement import PodPlacement, node_of
from components.storage_spec import Source, Storage, StorageSpec
from tests.conftest import Golden
from tests.stack_files import image

FILE = FileSpec(url="https://example.com/a?token=1", sha256="0" * 64, path="data/a")
IMAGE = ImagePrepare(kind="image", image=image("python"), command=("make", "data"))
COPY = StoragePrepare(kind="storage", source="raw")
HTTP = HttpPrepare(kind="http", files=(FILE,))
BOTH = node_of("unit", "both")
GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def storage(prepare: Prepare | None, **more: Any) -> Storage:
    """Give a storage that is filled by *prepare*."""
    return Storage(
        name="dataset",
        tenant="lab-a",
        namespace="lab-a",
        owner="test",
        spec=StorageSpec(size="200Gi", prepare=prepare),
        storage_class=None,
        access_mode="ReadWriteOnce",
        bundle=Bundle(image("bundle"), as_volume=False),
        prepare_image=image("prepare"),
        **more,
    )


def said(prepare: Prepare, **changes: Any) -> Storage:
    """Give a storage that is filled by *prepare*, changed."""
    return storage(prepare.model_copy(update=changes))


def pod(made: Storage) -> Manifest:
    """Give the spec of the Job's pod."""
    spec: Manifest = storage_manifests(made)["prepare"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("prepare", [COPY, HTTP], ids=["copy", "http"])
def test_manifests(golden: Golden, prepare: Prepare) -> None:
    """A copy and a download are reviewed as files."""
    source = Source("raw") if prepare is COPY else None
    golden(f"prepare-{prepare.kind}.yaml", storage_manifests(storage(prepare, source=source)))


@pytest.mark.parametrize(
    ("prepare", "changes"),
    [
        (IMAGE, {"args": ("x",)}),
        (IMAGE, {"revision": 1}),
        (COPY, {"source": "other"}),
        (COPY, {"revision": 1}),
        (HTTP, {"files": (FILE.model_copy(update={"sha256": "1" * 64}),)}),
        (HTTP, {"files": (FILE.model_copy(update={"path": "b"}),)}),
        (HTTP, {"revision": 1}),
    ],
)
def test_another_content_is_another_job(prepare: Prepare, changes: dict[str, Any]) -> None:
    """What is described otherwise, or told to be made again, runs again."""
    before, after = storage(prepare), said(prepare, **changes)

    assert before.digest != after.digest
    assert before.job != after.job


@pytest.mark.parametrize(
    ("prepare", "changes"),
    [
        (IMAGE, {"cpu": "4", "memory": "8Gi", "timeout_seconds": 7}),
        (HTTP, {"files": (FILE.model_copy(update={"url": "http://mirror.example.com/a"}),)}),
        (COPY, {"filled": True}),
    ],
)
def test_the_way_is_no_content(prepare: Prepare, changes: dict[str, Any]) -> None:
    """More time, more memory or a mirror run nothing again over data that is there."""
    assert said(prepare, **changes).job == storage(prepare).job


def test_what_else_changes_runs_nothing_again() -> None:
    """A larger volume, another user or a new bundle leave the content as it is."""
    before = storage(IMAGE)
    grown = before.spec.model_copy(update={"size": "400Gi", "run_as": RunAs(uid=7, gid=7)})

    assert replace(before, spec=grown, bundle=Bundle(image("other"), as_volume=False)).job == before.job


def test_a_try_that_takes_too_long_ends_before_its_job() -> None:
    """The Job's own end takes the pod's last lines with it: the pod ends at the time that was given, and is kept."""
    job = storage_manifests(said(IMAGE, timeout_seconds=100))["prepare"]["spec"]

    assert job["template"]["spec"]["activeDeadlineSeconds"] == 100
    assert job["activeDeadlineSeconds"] > 100 + 30


def test_a_source_is_only_read() -> None:
    """The volume that is copied is mounted read-only as a volume, so that no kubelet gives it to another group."""
    made = pod(storage(COPY, source=Source("raw")))
    (volume,) = [one for one in made["volumes"] if one["name"] == "source"]
    (mount,) = [one for one in made["containers"][0]["volumeMounts"] if one["name"] == "source"]

    assert volume["persistentVolumeClaim"] == {"claimName": "storage-raw", "readOnly": True}
    assert mount["readOnly"] is True


def test_a_copy_goes_to_the_node_that_holds_its_source() -> None:
    """Where one node at a time mounts the source and a unit does, the copy runs there and stands that node's taints."""
    source = Source("raw", PodPlacement({"a": "b"}, (GPU,), beside="reader"))
    made = pod(storage(COPY, source=source))
    (term,) = made["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]

    assert term["labelSelector"] == {"matchLabels": names.selector("unit", "reader")}
    assert made["tolerations"] == [GPU]
    assert "nodeSelector" not in made


def test_a_copy_waits_for_no_unit_that_waits_for_it() -> None:
    """A unit that mounts source and copy starts after the copy; one that only got the copy has the source meanwhile."""
    source = Source("raw", PodPlacement(beside="both"), shown=True)
    made = storage(COPY, source=source, running=("both",))
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": BOTH}]}

    assert pod(made)["affinity"] == {"podAffinity": affinity}
    assert pod(replace(made, placement=PodPlacement(beside="both")))["affinity"] == {"podAffinity": affinity}


def test_a_copy_goes_to_the_node_where_its_source_is_shown() -> None:
    """Without a running unit the source's browser has the volume, and one that is being placed is waited for."""
    made = pod(storage(COPY, source=Source("raw", shown=True)))
    (term,) = made["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]

    assert term["labelSelector"] == {"matchLabels": names.selector("browser", "raw")}
    assert "affinity" not in pod(storage(COPY, source=Source("raw")))


def test_a_storage_that_is_shown_is_filled_beside_its_browser() -> None:
    """It has the volume where its first prepare comes later; a browser that is not there yet is not waited for."""
    spec = StorageSpec(size="1Gi", prepare=IMAGE, browser=BrowserSpec())
    shown = replace(storage(IMAGE), spec=spec, browser_image=image("dufs"))
    (wanted,) = pod(shown)["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]

    assert wanted["podAffinityTerm"]["labelSelector"] == {"matchLabels": names.selector("browser", "dataset")}
    assert "affinity" not in pod(replace(shown, access_mode="ReadWriteMany"))


def test_a_job_that_was_deleted_by_hand_prefers_its_units_node() -> None:
    """It has nothing to do but to find its marker, and can do so nowhere else."""
    made = pod(storage(IMAGE, placement=PodPlacement(beside="trainer"), running=("trainer",)))
    (wanted,) = made["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]

    assert wanted["podAffinityTerm"]["labelSelector"] == {"matchLabels": names.selector("unit", "trainer")}


def test_the_claim_says_what_it_is_filled_with() -> None:
    """`make status` reads there which Job counts, and if it was asked for anew; and its container by its name."""
    plain, again = claim(storage(IMAGE)), claim(said(IMAGE, revision=2))

    assert plain["metadata"]["annotations"][JOB_ANNOTATION] == storage(IMAGE).job
    assert [one["name"] for one in pod(storage(IMAGE))["containers"]] == [CONTAINER]
    assert REVISION_ANNOTATION not in plain["metadata"]["annotations"]
    assert again["metadata"]["annotations"][REVISION_ANNOTATION] == "2"


def test_the_claim_says_that_it_is_shown() -> None:
    """`make status` misses a browser by that, and none where nobody asked for one."""
    spec = StorageSpec(size="1Gi", browser=BrowserSpec())
    shown = claim(replace(storage(None), spec=spec, browser_image=image("dufs")))

    assert shown["metadata"]["annotations"][SHOWN_ANNOTATION] == "true"
    assert SHOWN_ANNOTATION not in claim(storage(None))["metadata"]["annotations"]


def claim(made: Storage) -> Manifest:
    """Give a storage's claim."""
    return storage_manifests(made)["claim"]
