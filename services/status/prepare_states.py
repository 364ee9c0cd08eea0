"""How far a volume is filled and why not further, as pure functions over the Job that fills it."""

from dataclasses import dataclass
from enum import Enum

from status.failures import container_failure, ending
from status.objects import Object, before, condition, running, status_of, statuses, terminated
from status.storage_objects import PREPARE, StorageSeen


class Prepare(Enum):
    """How far the volume is filled."""

    NOT_REQUESTED = "NotRequested"
    PENDING = "Pending"
    """Nothing fills it yet, or not again yet."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Recovery(Enum):
    """Whether its owner has to ask for it anew, and how far that is."""

    NONE = "None"
    REQUIRED = "Required"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"


@dataclass(frozen=True)
class PrepareVerdict:
    """How far the volume is filled, with a word for programs and a sentence for people."""

    phase: Prepare
    reason: str
    message: str = ""
    job: str = ""
    recovery: Recovery = Recovery.NONE


def prepare_of(seen: StorageSeen) -> PrepareVerdict:
    """Judge the content of a storage."""
    if seen.wanted_job is None:
        return PrepareVerdict(Prepare.NOT_REQUESTED, "NothingToPrepare")
    phase, reason, message = _judged(seen)
    return PrepareVerdict(phase, reason, message, seen.wanted_job, _recovery(phase, again=seen.again))


def _recovery(phase: Prepare, *, again: bool) -> Recovery:
    """Say what a failure asks for, and how far it is what somebody asked for by a new revision."""
    if phase is Prepare.FAILED:
        return Recovery.REQUIRED
    if not again:
        return Recovery.NONE
    return Recovery.SUCCEEDED if phase is Prepare.SUCCEEDED else Recovery.RUNNING


_Judged = tuple[Prepare, str, str]


def _judged(seen: StorageSeen) -> _Judged:
    job = seen.job
    if job is None:
        return Prepare.PENDING, "NoJob", f"job {seen.wanted_job} is not there: run `up` with REFRESH=1"
    if condition(job, "Complete").get("status") == "True":
        if seen.claim and before(job["metadata"].get("creationTimestamp"), _made(seen.claim)):
            said = f"job {seen.wanted_job} has filled a volume that is gone: run `up` with REFRESH=1"
            return Prepare.PENDING, "OtherVolume", said
        return Prepare.SUCCEEDED, "Prepared", ""
    if (broken := condition(job, "Failed")).get("status") == "True":
        said = ": ".join(filter(None, (str(broken.get("message") or ""), _last_words(seen))))
        return Prepare.FAILED, str(broken.get("reason") or "JobFailed"), said
    live = [pod for pod in seen.job_pods if (pod.get("status") or {}).get("phase") in {"Pending", "Running", None}]
    return _at_work(seen, live[-1]) if live else _without_pod(seen, job)


def _made(claim: Object) -> object:
    return claim["metadata"].get("creationTimestamp")


def _last_words(seen: StorageSeen) -> str:
    """Give how the newest run of the Job ended, with the last that it said; empty where its pods are gone."""
    for pod in reversed(seen.job_pods):
        status = pod.get("status") or {}
        reason = str(status.get("reason") or "")
        for container in statuses(pod):
            ended = terminated(container)
            if ended and (ended.get("exitCode") or ended.get("signal")):
                return ": ".join(filter(None, (reason, ending(container["name"], ended))))
        if status.get("phase") == "Failed":
            return ": ".join(filter(None, (reason, str(status.get("message") or ""))))
    return ""


def _without_pod(seen: StorageSeen, job: Object) -> _Judged:
    """Judge a Job between two pods, or before its first: the next is delayed, or cannot be made."""
    told = [event for event in seen.events_about(job) if event.get("type") == "Warning"]
    if told and told[-1].get("reason") == "FailedCreate":
        return Prepare.PENDING, "FailedCreate", str(told[-1].get("message") or "")
    if last := _last_words(seen):
        return Prepare.PENDING, "Retrying", f"it is tried again soon; {last}"
    return Prepare.PENDING, "NoPod", "its job has no pod yet"


def _at_work(seen: StorageSeen, pod: Object) -> _Judged:
    if running(pod, PREPARE):
        before = _last_words(seen)
        return Prepare.RUNNING, "Preparing", f"it is tried again; before, {before}" if before else ""
    if terminated(status_of(pod, PREPARE)):
        return Prepare.RUNNING, "Ending", "its pod has ended, and is counted"
    if found := next(filter(None, map(container_failure, statuses(pod))), None):
        return Prepare.PENDING, *found
    return Prepare.PENDING, *seen.waits(pod)
