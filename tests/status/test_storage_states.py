"""Phases and reasons of a storage: its claim, its content, its browser, and the whole; the first rule that matches."""

from dataclasses import replace
from typing import Any

import pytest
from status.objects import Object
from status.prepare_states import Recovery
from status.storage_objects import StorageSeen
from status.storage_states import storage_state

from components import names
from components.gpu_storage import storage_manifests
from tests.components.test_objects import STORAGE
from tests.status.objects import BEGUN, DONE, ENDED, RUNNING, container, ended, unscheduled, waiting

JOB = "prepare-data-1"
OLD_JOB = "prepare-data-0"
BROWSER: Object = {"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1}
NO_DATA = ended(1, message="404 for https://data.example.com/x")
GROWING: Object = {"type": "FileSystemResizePending", "status": "True", "message": "m"}
TOO_LATE = ("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
THRICE = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
QUOTA = 'pods "prepare-data-1-x" is forbidden: exceeded quota: quota'
NO_NODE = "0/3 nodes are available: 3 Insufficient cpu."


def claim(phase: str = "Bound", job: str | None = JOB, **said: Any) -> Object:
    """Give the claim of the storage `data`, which *job* fills."""
    notes = {names.PREPARE_ANNOTATION: job} if job else {}
    notes |= {"gpu-runtime/prepare-revision": said["revision"]} if "revision" in said else {}
    capacity = {"capacity": {"storage": said.get("capacity", "5Gi")}} if phase == "Bound" else {}
    return {
        "metadata": {"name": "storage-data", "annotations": notes, **said.get("metadata", {})},
        "spec": {"resources": {"requests": {"storage": said.get("size", "5Gi")}}},
        "status": {"phase": phase, "conditions": said.get("conditions", []), **capacity},
    }


def job(*conditions: tuple[str, str, str], name: str = JOB) -> Object:
    """Give the Job with conditions of kind, reason and message."""
    listed = [{"type": k, "status": "True", "reason": r, "message": m} for k, r, m in conditions]
    return {"metadata": {"name": name}, "status": {"conditions": listed}}


DONE_JOB = job(("Complete", "CompletionsReached", ""))


def made(thing: Object, at: str) -> Object:
    """Give an object that was made at a time."""
    return {**thing, "metadata": {**thing["metadata"], "creationTimestamp": at}}


def pod(*containers: Object, phase: str = "Running", at: str = BEGUN, owner: str = JOB, **status: Any) -> Object:
    """Give a pod of a Job; *at* is when it was made."""
    meta = {"name": f"{owner}-{at}", "creationTimestamp": at, "ownerReferences": [{"kind": "Job", "name": owner}]}
    own = [one for one in containers if one["name"] == "prepare"]
    init = [one for one in containers if one["name"] != "prepare"]
    return {
        "metadata": meta,
        "status": {"phase": phase, "initContainerStatuses": init, "containerStatuses": own, **status},
    }


FAILED_POD = pod(container("prepare", NO_DATA), phase="Failed")


def event(about: str, reason: str, message: str, kind: str = "Normal", at: str = BEGUN) -> Object:
    """Give an event."""
    named = {"involvedObject": {"name": about}, "reason": reason, "message": message}
    return {**named, "type": kind, "lastTimestamp": at}


def browser(**status: Any) -> Object:
    """Give the Deployment that shows the files."""
    return {"metadata": {"name": "browser-data", "generation": 1}, "spec": {"replicas": 1}, "status": status}


def browser_pod(*containers: Object, **status: Any) -> Object:
    """Give the browser's pod."""
    meta = {"name": "browser-data-1", "creationTimestamp": BEGUN}
    return {"metadata": meta, "status": {"containerStatuses": list(containers), **status}}


PLAIN = claim(job=None)
SHOWABLE = claim(job=None, metadata={"annotations": {names.SHOWN_ANNOTATION: "true"}})

CLAIMS: dict[str, tuple[StorageSeen, str, str, str]] = {
    "not there": (StorageSeen(None), "Absent", "NotDeployed", "run `up`"),
    "bound": (StorageSeen(PLAIN), "Bound", "Bound", ""),
    "lost": (StorageSeen(claim("Lost")), "Lost", "VolumeLost", "its data with it"),
    "goes": (StorageSeen(claim(metadata={"deletionTimestamp": ENDED})), "Terminating", "Terminating", "no pod mounts"),
    "nobody says anything": (StorageSeen(claim("Pending")), "Pending", "Unbound", "no volume has been made"),
    "waits for a pod": (
        StorageSeen(claim("Pending"), events=(event("storage-data", "WaitForFirstConsumer", "waiting"),)),
        "Pending",
        "WaitForFirstConsumer",
        "when the first pod that mounts it is scheduled",
    ),
    "cannot be made, in the newest words": (
        StorageSeen(
            claim("Pending"),
            events=(
                event("storage-data", "ProvisioningFailed", "no space left in pool", "Warning", ENDED),
                event("storage-data", "WaitForFirstConsumer", "waiting"),
                event("storage-other", "ProvisioningFailed", "another's", "Warning", ENDED),
            ),
        ),
        "Pending",
        "ProvisioningFailed",
        "no space left in pool",
    ),
    "grows": (
        StorageSeen(claim(size="9Gi", conditions=[GROWING])),
        "Bound",
        "FileSystemResizePending",
        "m",
    ),
    "is to grow, and nobody has begun": (
        StorageSeen(claim(size="128Mi", capacity="64Mi")),
        "Bound",
        "ResizeRequested",
        "nobody has begun to enlarge it",
    ),
    "larger than asked for": (StorageSeen(claim(size="4900Mi")), "Bound", "Bound", ""),
    "as large, in other words": (StorageSeen(claim(size="5120Mi")), "Bound", "Bound", ""),
    "has grown": (
        StorageSeen(claim(conditions=[{"type": "Resizing", "status": "False"}])),
        "Bound",
        "Bound",
        "",
    ),
}


@pytest.mark.parametrize(("seen", "phase", "reason", "message"), CLAIMS.values(), ids=CLAIMS)
def test_a_claim_is_in_one_phase_for_one_reason(seen: StorageSeen, phase: str, reason: str, message: str) -> None:
    """What there is of a volume, in the words of who makes it."""
    found = storage_state(seen).claim

    assert (found.phase.value, found.reason) == (phase, reason)
    assert message in found.message


def preparing(*pods: Object, jobs: tuple[Object, ...] = (job(),), **said: Any) -> StorageSeen:
    """Give a storage that is being prepared."""
    return StorageSeen(claim(**said.pop("claim", {})), jobs, pods, **said)


PREPARES: dict[str, tuple[StorageSeen, str, str, str, str]] = {
    "nothing is asked for": (StorageSeen(PLAIN, (job(name=OLD_JOB),)), "NotRequested", "NothingToPrepare", "", "None"),
    "no claim": (StorageSeen(None), "NotRequested", "NothingToPrepare", "", "None"),
    "job is gone": (preparing(jobs=()), "Pending", "NoJob", "job prepare-data-1 is not there", "None"),
    "another job": (preparing(jobs=(job(name=OLD_JOB),)), "Pending", "NoJob", "is not there", "None"),
    "no pod yet": (preparing(), "Pending", "NoPod", "no pod yet", "None"),
    "no pod may be made": (
        preparing(events=(event(JOB, "FailedCreate", QUOTA, "Warning"),)),
        "Pending",
        "FailedCreate",
        "exceeded quota",
        "None",
    ),
    "no node": (
        preparing(pod(phase="Pending", conditions=unscheduled(NO_NODE))),
        "Pending",
        "Unschedulable",
        "Insufficient cpu",
        "None",
    ),
    "image is not there": (
        preparing(pod(container("prepare", waiting("ImagePullBackOff", "Back-off pulling")), phase="Pending")),
        "Pending",
        "ImagePullBackOff",
        "container prepare: Back-off pulling",
        "None",
    ),
    "image comes": (
        preparing(
            pod(container("prepare", waiting("PodInitializing")), phase="Pending"),
            events=(event(f"{JOB}-{BEGUN}", "Pulling", "Pulling image pytorch"),),
        ),
        "Pending",
        "Pulling",
        "Pulling image pytorch",
        "None",
    ),
    "volume does not come": (
        preparing(
            pod(container("prepare", waiting("ContainerCreating")), phase="Pending"),
            events=(event(f"{JOB}-{BEGUN}", "FailedAttachVolume", "Multi-Attach error", "Warning"),),
        ),
        "Pending",
        "FailedAttachVolume",
        "Multi-Attach error",
        "None",
    ),
    "pod starts": (
        preparing(pod(container("prepare", waiting("PodInitializing")), phase="Pending")),
        "Pending",
        "Starting",
        "its pod starts",
        "None",
    ),
    "at work": (preparing(pod(container("prepare", RUNNING))), "Running", "Preparing", "", "None"),
    "at work again after a failure": (
        preparing(FAILED_POD, pod(container("prepare", RUNNING), at=ENDED)),
        "Running",
        "Preparing",
        "before, container prepare ended with 1 after 3 s: 404 for https://data.example.com/x",
        "None",
    ),
    "between two tries": (preparing(FAILED_POD), "Pending", "Retrying", "404 for", "None"),
    "ended and not counted": (preparing(pod(container("prepare", DONE))), "Running", "Ending", "counted", "None"),
    "done": (preparing(jobs=(DONE_JOB,)), "Succeeded", "Prepared", "", "None"),
    "done over a volume that is gone": (
        preparing(jobs=(made(DONE_JOB, BEGUN),), claim={"metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"}}),
        "Pending",
        "OtherVolume",
        "has filled a volume that is gone: run `up` with REFRESH=1",
        "None",
    ),
    "done over this volume": (
        preparing(jobs=(made(DONE_JOB, ENDED),), claim={"metadata": {"creationTimestamp": ENDED}}),
        "Succeeded",
        "Prepared",
        "",
        "None",
    ),
    "gave up": (
        preparing(FAILED_POD, jobs=(job(THRICE),)),
        "Failed",
        "BackoffLimitExceeded",
        "backoff limit: container prepare ended with 1 after 3 s: 404 for https://data.example.com/x",
        "Required",
    ),
    "too late": (preparing(jobs=(job(TOO_LATE),)), "Failed", "DeadlineExceeded", "specified deadline", "Required"),
    "too late, with what it said last": (
        preparing(
            pod(container("prepare", ended(143, message="still at it")), phase="Failed", reason="DeadlineExceeded"),
            jobs=(job(TOO_LATE),),
        ),
        "Failed",
        "DeadlineExceeded",
        "specified deadline: DeadlineExceeded: container prepare ended with 143 after 3 s: still at it",
        "Required",
    ),
    "evicted": (
        preparing(pod(phase="Failed", reason="Evicted", message="low on disk"), jobs=(job(THRICE),)),
        "Failed",
        "BackoffLimitExceeded",
        "Evicted: low on disk",
        "Required",
    ),
    "asked for again, at work": (
        preparing(pod(container("prepare", RUNNING)), claim={"revision": "2"}),
        "Running",
        "Preparing",
        "",
        "Running",
    ),
    "asked for again, done": (
        preparing(jobs=(DONE_JOB,), claim={"revision": "2"}),
        "Succeeded",
        "Prepared",
        "",
        "Succeeded",
    ),
    "asked for again, failed": (
        preparing(jobs=(job(TOO_LATE),), claim={"revision": "2"}),
        "Failed",
        "DeadlineExceeded",
        "",
        "Required",
    ),
    "another job's pods do not count": (
        preparing(pod(container("prepare", RUNNING), owner=OLD_JOB)),
        "Pending",
        "NoPod",
        "",
        "None",
    ),
}


@pytest.mark.parametrize(("seen", "phase", "reason", "message", "recovery"), PREPARES.values(), ids=PREPARES)
def test_content_is_in_one_phase_for_one_reason(
    seen: StorageSeen, phase: str, reason: str, message: str, recovery: str
) -> None:
    """How far a volume is filled, with the last words of what failed, and whether its owner has to do something."""
    found = storage_state(seen).prepare

    assert (found.phase.value, found.reason, found.recovery.value) == (phase, reason, recovery)
    assert message in found.message
    assert found.job == ("" if phase == "NotRequested" else JOB)


BROWSERS: dict[str, tuple[StorageSeen, str, str, str]] = {
    "none": (StorageSeen(PLAIN), "Disabled", "NoBrowser", ""),
    "gone": (StorageSeen(SHOWABLE), "Pending", "NoBrowser", "it comes once all is filled; else run `up`"),
    "ready": (StorageSeen(PLAIN, browser=browser(**BROWSER)), "Ready", "BrowserReady", ""),
    "no pod": (StorageSeen(PLAIN, browser=browser()), "Pending", "NoPod", "no pod yet"),
    "old one is ready": (
        StorageSeen(PLAIN, browser=browser(**{**BROWSER, "observedGeneration": 0})),
        "Pending",
        "NoPod",
        "",
    ),
    "waits for its unit's node": (
        StorageSeen(
            PLAIN,
            browser=browser(),
            browser_pods=(browser_pod(conditions=unscheduled("1 node(s) didn't match pod affinity rules.")),),
        ),
        "Pending",
        "Unschedulable",
        "affinity",
    ),
    "starts": (
        StorageSeen(
            PLAIN, browser=browser(), browser_pods=(browser_pod(container("browser", waiting("ContainerCreating"))),)
        ),
        "Pending",
        "Starting",
        "its pod starts",
    ),
    "crashes": (
        StorageSeen(
            PLAIN,
            browser=browser(),
            browser_pods=(
                browser_pod(
                    container("browser", waiting("CrashLoopBackOff"), ended(2, message="no /data"), restarts=3)
                ),
            ),
        ),
        "Failed",
        "CrashLoopBackOff",
        "container browser ended with 2 after 3 s: no /data (started again 3 times)",
    ),
    "no pod may be made": (
        StorageSeen(
            PLAIN,
            browser=browser(
                conditions=[{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": QUOTA}]
            ),
        ),
        "Failed",
        "FailedCreate",
        "exceeded quota",
    ),
}


@pytest.mark.parametrize(("seen", "phase", "reason", "message"), BROWSERS.values(), ids=BROWSERS)
def test_a_browser_is_in_one_phase_for_one_reason(seen: StorageSeen, phase: str, reason: str, message: str) -> None:
    """Whether files are shown, and the words of what keeps them from it."""
    found = storage_state(seen).browser

    assert (found.phase.value, found.reason) == (phase, reason)
    assert message in found.message


SHOWN = browser(**BROWSER)
OVERALL: dict[str, tuple[StorageSeen, str, str, str]] = {
    "not there": (StorageSeen(None), "Absent", "NotDeployed", "run `up`"),
    "lost": (StorageSeen(claim("Lost"), (DONE_JOB,)), "Failed", "StorageLost", "its volume is gone"),
    "no volume": (StorageSeen(claim("Pending", job=None)), "Pending", "StoragePending", "Unbound: no volume"),
    "no volume, and the job gave up": (
        StorageSeen(claim("Pending"), (job(TOO_LATE),)),
        "Failed",
        "StoragePrepareFailed",
        "DeadlineExceeded: ",
    ),
    "not prepared": (StorageSeen(claim(), (job(THRICE),)), "Failed", "StoragePrepareFailed", "BackoffLimitExceeded"),
    "browser broken": (
        StorageSeen(claim(), (DONE_JOB,), browser=browser(), browser_pods=(browser_pod(container("b", NO_DATA)),)),
        "Failed",
        "StorageBrowserFailed",
        "404 for",
    ),
    "being prepared": (
        StorageSeen(claim(), (job(),), (pod(container("prepare", RUNNING)),), browser=SHOWN),
        "Pending",
        "StoragePrepareRunning",
        "Preparing",
    ),
    "waits to be prepared": (StorageSeen(claim(), (job(),)), "Pending", "StoragePreparePending", "NoPod"),
    "browser starts": (
        StorageSeen(claim(), (DONE_JOB,), browser=browser()),
        "Pending",
        "StorageBrowserPending",
        "NoPod",
    ),
    "browser is gone": (StorageSeen(SHOWABLE), "Pending", "StorageBrowserPending", "NoBrowser: it comes"),
    "all is well": (StorageSeen(claim(), (DONE_JOB,), browser=SHOWN), "Ready", "StorageReady", ""),
    "a plain volume": (StorageSeen(PLAIN), "Ready", "StorageReady", ""),
    "is to grow": (
        StorageSeen(claim(job=None, size="128Mi", capacity="64Mi")),
        "Ready",
        "StorageReady",
        "grows from 64Mi to 128Mi: ResizeRequested nobody has begun to enlarge it",
    ),
    "grows": (
        StorageSeen(claim(job=None, size="9Gi", conditions=[GROWING])),
        "Ready",
        "StorageReady",
        "grows from 5Gi to 9Gi: FileSystemResizePending m",
    ),
}


@pytest.mark.parametrize(("seen", "phase", "reason", "message"), OVERALL.values(), ids=OVERALL)
def test_a_storage_is_in_one_phase_for_one_reason(seen: StorageSeen, phase: str, reason: str, message: str) -> None:
    """The whole is what its worst part is, and says which part and why."""
    found = storage_state(seen).overall

    assert (found.phase.value, found.reason) == (phase, reason)
    assert message in found.message


def test_the_claim_names_its_job() -> None:
    """What a claim says of its Job is the Job's name, so that states see which of several counts."""
    made = storage_manifests(STORAGE)
    seen = StorageSeen(made["claim"], (made["prepare"],))

    assert seen.job == made["prepare"]
    assert storage_state(seen).prepare.phase.value == "Pending"
    assert storage_state(replace(seen, jobs=())).prepare.reason == "NoJob"
    plain = storage_manifests(replace(STORAGE, spec=STORAGE.spec.model_copy(update={"prepare": None})))
    assert storage_state(StorageSeen(plain["claim"])).prepare.recovery is Recovery.NONE
