"""Who may have a volume while it is filled: the cluster says who has it, and all others are waited for or refused."""

import asyncio
from dataclasses import replace
from typing import Any

import httpx2
import pulumi
import pytest
from lightkube import Client

from components import names
from components.browser_spec import BrowserSpec, UploadSpec
from components.cluster import Claim
from components.cluster_storage import LiveClaim
from components.gpu_storage import storage_manifests
from components.model import Manifest
from components.mounting import mounters
from components.refill import Refill, finished, in_the_way, refusal
from components.storage_spec import Storage
from tests.components.test_cluster import client
from tests.components.test_prepare import IMAGE, claim, said, storage
from tests.stack_files import image

OURS, THEIRS = "test", "other"
NOW = "2026-01-01T00:00:00Z"
OLD, NEW = storage(IMAGE), said(IMAGE, revision=1)


def labels(component: str, instance: str, owner: str = OURS) -> dict[str, str]:
    """Give the labels of an object of tenant lab-a."""
    return dict(names.labels(owner=owner, component=component, instance=instance, tenant="lab-a"))


def mounting(volume: str = "dataset") -> Manifest:
    """Give the spec of a pod that mounts a storage's claim."""
    volumes = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "a", "persistentVolumeClaim": {"claimName": names.claim(volume)}},
    ]
    return {"containers": [{"name": "unit"}], "volumes": volumes}


def pod(
    name: str, component: str = "unit", instance: str = "", *, phase: str = "Running", going: bool = False, **more: Any
) -> Manifest:
    """Give a pod; *going*: it was told to end."""
    meta = {"name": name, "namespace": "lab-a", "labels": labels(component, instance or name, **more)}
    told = {"deletionTimestamp": NOW} if going else {}
    return {"metadata": {**meta, **told}, "spec": mounting(), "status": {"phase": phase}}


def unit(name: str, replicas: int = 1, volume: str = "dataset") -> Manifest:
    """Give the Deployment of a unit that mounts a storage."""
    template = {"metadata": {"labels": labels("unit", name)}, "spec": mounting(volume)}
    spec = {"replicas": replicas, "selector": {}, "template": template}
    return {"metadata": {"name": f"unit-{name}", "namespace": "lab-a", "labels": labels("unit", name)}, "spec": spec}


def browser(one: Manifest, *, upload: bool) -> Manifest:
    """Have a pod, or a Deployment, be one of the storage's browser, as its manifests have it; a webhook was there."""
    said = BrowserSpec(upload=UploadSpec() if upload else None)
    made = replace(NEW, spec=NEW.spec.model_copy(update={"browser": said}), browser_image=image("dufs"))
    deployment = storage_manifests(made)["browser"]
    spec = deployment["spec"]["template"]["spec"]
    spec["volumes"].append({"name": "injected", "emptyDir": {}})
    spec["containers"].append({"name": "injected", "volumeMounts": [{"name": "injected", "mountPath": "/a"}]})
    shown = spec if "status" in one else deployment["spec"]
    return {**one, "metadata": {**one["metadata"], "labels": labels("browser", "dataset")}, "spec": shown}


SHOWN = replace(NEW, spec=NEW.spec.model_copy(update={"browser": BrowserSpec()}))
"""That its browser stays in the stack file; what it takes there is not asked of it."""
SHOWS, SHOWING = (browser(one, upload=False) for one in (unit("dataset"), pod("browser-dataset-1")))
TAKES, TAKING = (browser(one, upload=True) for one in (unit("dataset"), pod("browser-dataset-1")))
ENDING = {**TAKES, "metadata": {**TAKES["metadata"], "deletionTimestamp": NOW}}


class Cluster:
    """An API server that has these objects of namespace lab-a, and remembers which Jobs were deleted."""

    def __init__(self, *pods: Manifest, units: tuple[Manifest, ...] = (), jobs: tuple[Manifest, ...] = ()) -> None:
        self.listed = {"pods": pods, "deployments": units, "jobs": jobs}
        self.claim: Manifest | None = None
        self.deleted: list[tuple[str, str]] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Play the API server."""
        kind = request.url.path.rpartition("/")[2]
        if request.method == "DELETE":
            self.deleted.append((kind, request.url.params["propagationPolicy"]))
            return httpx2.Response(404, json={"kind": "Status", "code": 404})
        if kind not in self.listed:
            return httpx2.Response(200 if self.claim else 404, json=self.claim or {"kind": "Status", "code": 404})
        selector = request.url.params.get("labelSelector", "")
        found = [one for one in self.listed[kind] if not selector or _component(one) in selector]
        return httpx2.Response(200, json={"items": found, "metadata": {}})

    @property
    def client(self) -> Client:
        """Connect to it."""
        return client(self.answer)


def _component(one: Manifest) -> str:
    return str(one["metadata"]["labels"][names.COMPONENT_LABEL])


def refused(storage: Storage, *pods: Manifest, units: tuple[Manifest, ...] = ()) -> str | None:
    """Say why *storage* may not be filled anew."""
    return refusal(storage, mounters(Cluster(*pods, units=units).client, storage))


def test_new_content_over_running_units_is_refused() -> None:
    """The refusal names the units, each once, and how to stop them."""
    made = replace(NEW, running=("trainer", "viewer"), resting=("idle",))
    units = tuple(unit(name) for name in ("trainer", "viewer", "idle"))
    found = refused(made, pod("trainer"), pod("idle"), units=units)

    assert found is not None
    assert "storage dataset.lab-a would be filled anew over its data" in found
    assert "and unit trainer.lab-a, unit viewer.lab-a may use that" in found
    assert "make stop UNIT=trainer.lab-a" in found
    assert "idle" not in found


@pytest.mark.parametrize("running", [(), ("renamed",)], ids=["removed", "renamed"])
@pytest.mark.parametrize("pods", [(), (pod("trainer"),)], ids=["no pod yet", "runs"])
def test_a_unit_that_leaves_in_the_same_change_is_refused(pods: tuple[Manifest, ...], running: tuple[str, ...]) -> None:
    """The engine removes last: what the stack file no longer has, or has by another name, would still use the data."""
    found = refused(replace(NEW, running=running), *pods, units=(unit("trainer"),))

    assert found is not None
    assert "and unit trainer.lab-a may use that: let unit trainer.lab-a end first (an `up` before" in found


def test_a_unit_that_drops_its_mount_in_the_same_change_is_refused() -> None:
    """What it still has mounted counts, and not what the stack file says of it."""
    found = refused(replace(NEW, running=("other",)), units=(unit("trainer"), unit("other", volume="home")))

    assert found is not None
    assert "and unit trainer.lab-a may use that: let" in found


@pytest.mark.parametrize(
    "by", [pod("shell", owner=THEIRS), pod("shell", "browser"), pod("shell", "")], ids=["theirs", "other", "nameless"]
)
def test_a_pod_that_somebody_made_is_refused(by: Manifest) -> None:
    """Whoever mounts the volume may use its data, and is named; labels like a unit's help nobody."""
    found = refused(replace(NEW, resting=("shell",)), by)

    assert found is not None
    assert "and pod lab-a/shell may use that: let pod lab-a/shell end first" in found


@pytest.mark.parametrize(
    "one",
    [
        unit("trainer", replicas=0),
        unit("trainer", volume="home"),
        pod("trainer", going=True),
        pod("trainer", phase="Succeeded"),
        SHOWS,
        SHOWING,
        pod("prepare-copy-1", "prepare", "copy"),
    ],
    ids=["stopped", "of another volume", "ends", "ended", "shown", "shows", "a copy"],
)
def test_who_is_about_to_end_or_only_shows_is_not_refused(one: Manifest) -> None:
    """What ends by itself is waited for; who may not write is no danger."""
    pods, units = ((), (one,)) if "replicas" in one["spec"] else ((one,), ())

    assert refused(replace(NEW, running=("trainer",)), *pods, units=units) is None


def guard(new: Storage, connect: Any, old: Storage | None = OLD) -> None:
    """Run the hook of the claim as the engine does, at its update, or without *old* at its making."""
    found = Refill(frozenset(), connect).guard(new)
    before = found.before_update if old else found.before_create
    args = pulumi.ResourceHookArgs(
        "urn", "id", "name", "type", old_inputs=claim(old) if old else None, new_inputs=claim(new)
    )
    for hook in before or ():
        assert isinstance(hook, pulumi.ResourceHook)
        asyncio.run(hook(args))  # type: ignore[arg-type]


@pytest.fixture
def _engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulumi.resource_hooks.register_resource_hook", lambda _: None)


@pytest.mark.usefixtures("_engine")
def test_the_cluster_is_asked_when_content_changes() -> None:
    """The hook refuses by what the cluster has; where nobody may ask, by what the stack file says."""
    busy = Cluster(units=(unit("gone"),))

    with pytest.raises(RuntimeError, match=r"unit gone\.lab-a may use that"):
        guard(NEW, lambda: busy.client)
    guard(replace(NEW, running=("trainer",)), lambda: Cluster().client)
    with pytest.raises(RuntimeError, match=r"unit trainer\.lab-a may use that"):
        guard(replace(NEW, running=("trainer",)), None)


@pytest.mark.usefixtures("_engine")
@pytest.mark.parametrize(
    ("old", "new"),
    [(OLD, OLD), (OLD, said(IMAGE, cpu="2")), (OLD, storage(None))],
    ids=["nothing new", "the way alone", "no prepare any more"],
)
def test_what_touches_no_data_asks_nobody(old: Storage, new: Storage) -> None:
    """What fills nothing anew is nobody's trouble."""

    def connect() -> Client:
        raise AssertionError

    guard(new, connect, old)


@pytest.mark.usefixtures("_engine")
def test_a_first_prepare_over_used_data_is_refused() -> None:
    """What a unit wrote into a storage that nothing filled is data like any other."""
    with pytest.raises(RuntimeError, match="would be filled anew"):
        guard(replace(NEW, running=("trainer",)), lambda: Cluster(pod("trainer")).client, storage(None))


@pytest.mark.parametrize(
    ("one", "waits"),
    [
        (pod("idle"), "unit idle.lab-a has not ended"),
        (pod("trainer", going=True), "unit trainer.lab-a has not ended"),
        (pod("gone", going=True), "unit gone.lab-a has not ended"),
        (pod("shell", "", owner=THEIRS, going=True), "pod lab-a/shell has not ended"),
        (pod("prepare-copy-1", "prepare", "copy"), "pod lab-a/prepare-copy-1 has not ended"),
        (pod("idle", phase="Failed"), None),
        (pod("trainer"), None),
    ],
    ids=["rests", "restarts", "was removed", "theirs ends", "a copy", "ended", "runs over its own"],
)
def test_the_job_waits_for_whoever_ends(one: Manifest, waits: str | None) -> None:
    """A pod that ends may still write, whoever it is; over what a running unit has the marker ends the Job at once."""
    made = replace(NEW, running=("trainer",), resting=("idle",))

    assert in_the_way(Cluster(one).client, made) == waits


@pytest.mark.parametrize("one", [TAKING, SHOWING], ids=["takes uploads", "shows"])
@pytest.mark.parametrize(("made_by", "waits"), [((), True), ((ENDING,), True), ((TAKES,), False)])
def test_the_job_waits_for_a_browser_that_leaves(one: Manifest, made_by: tuple[Manifest, ...], *, waits: bool) -> None:
    """Its pod is told to end some moments after its Deployment was, or is gone; one that stays was judged before."""
    found = in_the_way(Cluster(one, units=made_by).client, SHOWN)

    assert found == ("the browser of dataset.lab-a has not ended" if waits else None)


def test_a_browser_that_left_the_stack_file_takes_no_uploads_beside_the_job() -> None:
    """It is removed after the Job; one that only shows may stay until then."""
    with pytest.raises(RuntimeError, match=r"the browser of dataset\.lab-a may use it; let that end first"):
        in_the_way(Cluster(TAKING, units=(TAKES,)).client, NEW)
    assert in_the_way(Cluster(SHOWING, units=(SHOWS,)).client, NEW) is None


@pytest.mark.parametrize("name", ["gone", "shell"])
def test_the_job_waits_for_nobody_who_stays(name: str) -> None:
    """A unit that left the stack file is removed after the Job, a pod of somebody else's never: both are refused."""
    by = pod(name) if name == "gone" else pod(name, owner=THEIRS)

    with pytest.raises(RuntimeError, match=rf"{name}\S* may use it; let that end first"):
        in_the_way(Cluster(by).client, NEW)


def job(name: str, instance: str = "dataset", *, owner: str = OURS, going: bool = False) -> Manifest:
    """Give a Job that fills a storage."""
    told = {"deletionTimestamp": NOW} if going else {}
    return {"metadata": {"name": name, "namespace": "lab-a", "labels": labels("prepare", instance, owner), **told}}


@pytest.mark.parametrize("name", [NEW.job, OLD.job], ids=["the same content", "another content"])
def test_what_a_killed_run_left_behind_is_removed(name: str) -> None:
    """A Job that the engine does not know of, whatever it fills the volume with, goes with its pods before another."""
    found = Cluster(jobs=(job("prepare-home-1", "home"), job(name)))

    assert in_the_way(found.client, NEW) == f"job {name} of an earlier run is still there"
    assert found.deleted == [(name, "Foreground")]


def test_a_job_that_goes_is_waited_for() -> None:
    """It is told once."""
    found = Cluster(jobs=(job(OLD.job, going=True),))

    assert in_the_way(found.client, NEW) == f"job {OLD.job} of an earlier run is still there"
    assert found.deleted == []


def test_jobs_of_others_are_left_alone() -> None:
    """Another storage's Job, or another stack's, is no business of ours; one of our name is told, and not removed."""
    others = Cluster(jobs=(job("prepare-home-1", "home"), job("prepare-dataset-1", owner=THEIRS)))

    assert in_the_way(others.client, NEW) is None
    with pytest.raises(RuntimeError, match=r"belongs to stack 'other'; rename the storage dataset\.lab-a"):
        in_the_way(Cluster(jobs=(job(NEW.job, owner=THEIRS),)).client, NEW)
    assert others.deleted == []


@pytest.mark.usefixtures("_engine")
def test_a_claim_that_is_made_anew_waits_for_its_units() -> None:
    """Deleted by hand, it comes back empty: a unit that waits for it would start over nothing, beside the Job."""
    waiting = Cluster(pod("trainer", phase="Pending"), units=(unit("trainer"),))
    running = replace(OLD, running=("trainer",))

    with pytest.raises(RuntimeError, match=r"unit trainer\.lab-a may use that: say `running: false`"):
        guard(running, lambda: waiting.client, None)
    waiting.claim = claim(NEW)
    with pytest.raises(RuntimeError, match=r"unit trainer\.lab-a may use that"):
        guard(running, lambda: waiting.client, None)
    guard(running, lambda: Cluster().client, None)
    guard(running, None, None)


@pytest.mark.usefixtures("_engine")
@pytest.mark.parametrize("pods", [(), (TAKING,)], ids=["no pod yet", "runs"])
def test_a_first_prepare_beside_an_upload_is_refused(pods: tuple[Manifest, ...]) -> None:
    """People would upload beside the Job: the engine takes the browser away with an earlier Job alone."""
    taking = Cluster(*pods, units=(TAKES,))

    with pytest.raises(RuntimeError, match=r"take `upload` from the browser of dataset\.lab-a in an `up` before"):
        guard(SHOWN, lambda: taking.client, storage(None))
    guard(SHOWN, lambda: Cluster(SHOWING, units=(SHOWS,)).client, storage(None))
    guard(SHOWN, lambda: Cluster(TAKING, units=(ENDING,)).client, storage(None))


@pytest.mark.usefixtures("_engine")
def test_a_browser_that_leaves_with_its_job_is_nobodys_trouble() -> None:
    """The engine replaces both; a browser that left the stack file is removed after the new Job, and refused."""
    taking = Cluster(TAKING, units=(TAKES,), jobs=(job(OLD.job),))

    guard(SHOWN, lambda: taking.client)
    with pytest.raises(RuntimeError, match=r"and the browser of dataset\.lab-a may use that: take `upload`"):
        guard(NEW, lambda: taking.client)


@pytest.mark.usefixtures("_engine")
def test_a_claim_that_is_adopted_with_its_content_is_nobodys_trouble() -> None:
    """Nothing new comes into it, whoever has it: its Job finds the marker."""
    adopting = Cluster(pod("trainer"), units=(unit("trainer"),))
    adopting.claim = claim(OLD)

    guard(replace(OLD, running=("trainer",)), lambda: adopting.client, None)


MADE = {
    "earlier": "2026-01-01T00:00:00Z",
    "by another clock": "2026-01-01T00:00:55Z",
    "then": "2026-01-01T00:01:00Z",
    "later": "2026-01-01T00:02:00Z",
}


@pytest.mark.parametrize(("made", "done"), [("earlier", False), ("by another clock", True), ("later", True)])
def test_a_job_that_is_older_than_its_claim_is_not_done(*, made: str, done: bool) -> None:
    """It has filled a volume that is gone, and says nothing of the one that is there."""
    complete = job(OLD.job)
    complete["metadata"]["creationTimestamp"] = MADE[made]
    complete["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    at = Claim("lab-a", names.claim("dataset"))
    there = {at: LiveClaim(at, "lab-a", "dataset", "1Gi", None, None, (), created=MADE["then"])}
    found = Cluster(jobs=(complete,)).client

    assert (("lab-a", OLD.job) in finished(found, OURS, ["lab-a"], there)) is done
    assert finished(found, OURS, ["lab-a"], {}) == frozenset()
