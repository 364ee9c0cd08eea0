"""In which state a storage is and why, as pure functions over cluster objects: its claim, its content, its browser."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from lightkube.utils.quantity import parse_quantity

from status.failures import failure
from status.objects import Object, condition
from status.prepare_states import Prepare, PrepareVerdict, prepare_of
from status.storage_objects import StorageSeen


class ClaimPhase(Enum):
    """What there is of the volume."""

    ABSENT = "Absent"
    """The stack file has it, the cluster does not."""
    TERMINATING = "Terminating"
    PENDING = "Pending"
    BOUND = "Bound"
    LOST = "Lost"


class Browser(Enum):
    """Whether the files are shown."""

    DISABLED = "Disabled"
    PENDING = "Pending"
    READY = "Ready"
    FAILED = "Failed"


class StoragePhase(Enum):
    """The storage as a whole."""

    ABSENT = "Absent"
    PENDING = "Pending"
    READY = "Ready"
    FAILED = "Failed"


@dataclass(frozen=True)
class ClaimVerdict:
    """What there is of the volume, and how large it is."""

    phase: ClaimPhase
    reason: str
    message: str = ""
    size: str = ""
    """As asked for."""
    capacity: str = ""
    """As it is."""


@dataclass(frozen=True)
class BrowserVerdict:
    """Whether the files are shown, and why not."""

    phase: Browser
    reason: str
    message: str = ""


@dataclass(frozen=True)
class Overall:
    """The storage as a whole: a word for programs, a sentence for people."""

    phase: StoragePhase
    reason: str
    message: str = ""


@dataclass(frozen=True)
class StorageState:
    """All that is shown of a storage."""

    overall: Overall
    claim: ClaimVerdict
    prepare: PrepareVerdict
    browser: BrowserVerdict


def storage_state(seen: StorageSeen) -> StorageState:
    """Judge a storage by what the cluster says of it."""
    claim, prepare, browser = claim_of(seen), prepare_of(seen), browser_of(seen)
    return StorageState(_overall(claim, prepare, browser), claim, prepare, browser)


def claim_of(seen: StorageSeen) -> ClaimVerdict:
    """Judge the claim."""
    claim = seen.claim
    if claim is None:
        return ClaimVerdict(ClaimPhase.ABSENT, "NotDeployed", "the cluster does not have it: run `up`")
    status = claim.get("status") or {}
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    capacity = (status.get("capacity") or {}).get("storage")
    sizes = {"size": str(requests.get("storage") or ""), "capacity": str(capacity or "")}
    if claim["metadata"].get("deletionTimestamp"):
        return ClaimVerdict(ClaimPhase.TERMINATING, "Terminating", "it goes when no pod mounts it any more", **sizes)
    if status.get("phase") == "Lost":
        return ClaimVerdict(ClaimPhase.LOST, "VolumeLost", "its volume is gone, and its data with it", **sizes)
    if status.get("phase") == "Bound":
        return ClaimVerdict(ClaimPhase.BOUND, *_growth(claim, **sizes), **sizes)
    return ClaimVerdict(ClaimPhase.PENDING, *_unbound(seen, claim), **sizes)


GROWS = ("Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError")
"""Conditions of a claim whose volume is being enlarged."""


def _growth(claim: Object, *, size: str, capacity: str) -> tuple[str, str]:
    """Say how far a volume is enlarged; a driver that is not there, or does not answer, says nothing of its own.

    A volume may be larger than what was asked for: drivers round up.
    """
    found = [one for kind in GROWS if (one := condition(claim, kind)).get("status") == "True"]
    if found:
        return str(found[-1]["type"]), str(found[-1].get("message") or "")
    return ("ResizeRequested", "nobody has begun to enlarge it") if _smaller(capacity, size) else ("Bound", "")


def _smaller(one: str, other: str) -> bool:
    """Compare two quantities; what is not known is not smaller."""
    less, more = parse_quantity(one or None), parse_quantity(other or None)
    return less is not None and more is not None and less < more


def _unbound(seen: StorageSeen, claim: Object) -> tuple[str, str]:
    """Say why there is no volume yet, in the newest words of who makes it."""
    told = seen.events_about(claim)
    newest = told[-1] if told else {}
    if newest.get("reason") == "WaitForFirstConsumer":
        return "WaitForFirstConsumer", "its volume is made when the first pod that mounts it is scheduled"
    return str(newest.get("reason") or "Unbound"), str(newest.get("message") or "no volume has been made for it yet")


def browser_of(seen: StorageSeen) -> BrowserVerdict:
    """Judge what shows the files."""
    deployment = seen.browser
    if deployment is None and seen.to_be_shown:
        return BrowserVerdict(Browser.PENDING, "NoBrowser", "it comes once all is filled; else run `up` with REFRESH=1")
    if deployment is None:
        return BrowserVerdict(Browser.DISABLED, "NoBrowser")
    status, meta = deployment.get("status") or {}, deployment["metadata"]
    current = (status.get("observedGeneration") or 0) >= (meta.get("generation") or 0)
    if current and status.get("availableReplicas") and status.get("updatedReplicas"):
        return BrowserVerdict(Browser.READY, "BrowserReady")
    if found := failure(seen.shown):
        return BrowserVerdict(Browser.FAILED, *found)
    pod = seen.shown.pod
    if pod is None:
        return BrowserVerdict(Browser.PENDING, "NoPod", "its browser has no pod yet")
    return BrowserVerdict(Browser.PENDING, *seen.waits(pod))


def _overall(claim: ClaimVerdict, prepare: PrepareVerdict, browser: BrowserVerdict) -> Overall:
    return next(filter(None, (rule(claim, prepare, browser) for rule in RULES)))


def _words(part: ClaimVerdict | PrepareVerdict | BrowserVerdict) -> str:
    """Say why a part is as it is."""
    return f"{part.reason}: {part.message}" if part.message else part.reason


_Rule = Callable[[ClaimVerdict, PrepareVerdict, BrowserVerdict], Overall | None]


def _gone(claim: ClaimVerdict, _: PrepareVerdict, __: BrowserVerdict) -> Overall | None:
    if claim.phase is ClaimPhase.ABSENT:
        return Overall(StoragePhase.ABSENT, claim.reason, claim.message)
    if claim.phase is ClaimPhase.LOST:
        return Overall(StoragePhase.FAILED, "StorageLost", claim.message)
    return None


def _not_prepared(_: ClaimVerdict, prepare: PrepareVerdict, __: BrowserVerdict) -> Overall | None:
    """Before the claim: a Job that gave up while its claim was not bound will not bind it any more."""
    if prepare.phase is not Prepare.FAILED:
        return None
    return Overall(StoragePhase.FAILED, "StoragePrepareFailed", _words(prepare))


def _no_volume(claim: ClaimVerdict, _: PrepareVerdict, __: BrowserVerdict) -> Overall | None:
    if claim.phase is ClaimPhase.BOUND:
        return None
    return Overall(StoragePhase.PENDING, "StoragePending", _words(claim))


def _not_shown(_: ClaimVerdict, __: PrepareVerdict, browser: BrowserVerdict) -> Overall | None:
    if browser.phase is not Browser.FAILED:
        return None
    return Overall(StoragePhase.FAILED, "StorageBrowserFailed", _words(browser))


def _preparing(_: ClaimVerdict, prepare: PrepareVerdict, __: BrowserVerdict) -> Overall | None:
    if prepare.phase in {Prepare.NOT_REQUESTED, Prepare.SUCCEEDED}:
        return None
    return Overall(StoragePhase.PENDING, f"StoragePrepare{prepare.phase.value}", _words(prepare))


def _showing(_: ClaimVerdict, __: PrepareVerdict, browser: BrowserVerdict) -> Overall | None:
    if browser.phase is not Browser.PENDING:
        return None
    return Overall(StoragePhase.PENDING, "StorageBrowserPending", _words(browser))


def _ready(claim: ClaimVerdict, _: PrepareVerdict, __: BrowserVerdict) -> Overall | None:
    grows = claim.size != claim.capacity and claim.reason != "Bound"
    message = f"grows from {claim.capacity} to {claim.size}: {claim.reason} {claim.message}".strip() if grows else ""
    return Overall(StoragePhase.READY, "StorageReady", message)


RULES: tuple[_Rule, ...] = (_gone, _not_prepared, _no_volume, _not_shown, _preparing, _showing, _ready)
"""The first that matches decides."""
