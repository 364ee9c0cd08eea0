"""In which state a unit is and why, as pure functions over cluster objects: the first rule that matches decides."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from status.evidence import MINUTES_SECONDS, Evidence, evidence
from status.existence import turned_away
from status.failures import container_failure, ending, failure
from status.objects import (
    EXIT,
    TUNNEL,
    UNIT,
    Object,
    Seen,
    condition,
    events_of,
    filled_by,
    moment,
    running,
    status_of,
    statuses,
    terminated,
)

NOT_READ = "NotRead"
"""Reason of an SSH state that nobody knows, since the evidence was not asked for or may not be seen."""


class Phase(Enum):
    """What a unit does."""

    ABSENT = "Absent"
    """The stack file has it, the cluster does not."""
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    EXITED = "Exited"
    """Its program has ended; its container is held."""
    READY = "Ready"
    FAILED = "Failed"
    PENDING = "Pending"
    """No node has it."""
    PROGRESSING = "Progressing"


class Ssh(Enum):
    """Whether a login works."""

    DISABLED = "Disabled"
    PENDING = "Pending"
    REACHABLE = "Reachable"
    FAILED = "Failed"


@dataclass(frozen=True)
class Verdict:
    """A phase with a word for programs and a sentence for people."""

    phase: Phase
    reason: str
    message: str = ""
    code: int | None = None
    """The program's, where it has exited."""

    @property
    def text(self) -> str:
        """Give the phase as people read it."""
        return self.phase.value if self.code is None else f"{self.phase.value}({self.code})"


@dataclass(frozen=True)
class SshVerdict:
    """Whether a login works, and why not."""

    state: Ssh
    reason: str
    message: str = ""


@dataclass(frozen=True)
class State:
    """All that is shown of a unit."""

    unit: Verdict
    ssh: SshVerdict
    restarts: int = 0
    created: str = ""
    """When its pod was made."""
    gpus: int = 0


def state_of(seen: Seen) -> State:
    """Judge a unit by what the cluster says of it."""
    verdict = next(filter(None, (rule(seen) for rule in RULES)))
    meta = (seen.pod or {}).get("metadata") or {}
    return State(
        unit=verdict,
        ssh=ssh_of(seen, verdict),
        restarts=int(status_of(seen.pod, UNIT).get("restartCount") or 0),
        created=str(meta.get("creationTimestamp") or ""),
        gpus=seen.gpus,
    )


def _absent(seen: Seen) -> Verdict | None:
    if seen.deployment is None:
        return Verdict(Phase.ABSENT, "NotDeployed", "the cluster does not have it: run `up`")
    return None


def _stopped(seen: Seen) -> Verdict | None:
    """Judge a unit that shall not run: the Deployment goes, or has no replicas."""
    deployment = seen.deployment or {}
    if not deployment["metadata"].get("deletionTimestamp") and deployment["spec"].get("replicas") != 0:
        return None
    if seen.pods:
        return Verdict(Phase.STOPPING, "Terminating", "its pod has been told to end")
    return Verdict(Phase.STOPPED, "NotRunning", "the stack file says `running: false`")


def _exited(seen: Seen) -> Verdict | None:
    """Judge a unit whose program has ended while its container is held, by the container that ended with its code."""
    status = status_of(seen.pod, EXIT)
    ended = terminated(status) or terminated(status, "lastState")
    held = running(seen.pod, UNIT)
    if not ended or not held or not str(ended.get("message") or "").startswith("the program ended"):
        return None
    begun, end = moment(held.get("startedAt")), moment(ended.get("finishedAt"))
    if begun and end and end < begun:
        return None  # the end of an earlier start
    holds = f"; it holds {seen.gpus} GPU{'s' if seen.gpus > 1 else ''}" if seen.gpus else ""
    return Verdict(Phase.EXITED, "ProgramEnded", f"{str(ended['message']).strip()}{holds}", int(ended["exitCode"]))


def _ready(seen: Seen) -> Verdict | None:
    deployment = seen.deployment or {}
    status = deployment.get("status") or {}
    current = (status.get("observedGeneration") or 0) >= (deployment["metadata"].get("generation") or 0)
    if not current or not status.get("availableReplicas") or not status.get("updatedReplicas"):
        return None
    own = status_of(seen.pod, UNIT)
    last = terminated(own, "lastState")
    times = own.get("restartCount") or 0
    message = f"started again {times} times; before, {ending(UNIT, last)}" if last and times else ""
    return Verdict(Phase.READY, "UnitReady", message)


def _failed(seen: Seen) -> Verdict | None:
    found = failure(seen)
    return Verdict(Phase.FAILED, *found) if found else None


def _storage(seen: Seen) -> Verdict | None:
    """Name the volumes that the unit waits for: lost, being filled, not filled, or not to be had."""
    bound = {claim["metadata"]["name"]: (claim.get("status") or {}).get("phase") for claim in seen.claims}
    waits = {name: "is lost" for name in seen.mounted if bound.get(name) == "Lost"}
    if "persistentvolumeclaim" in str(condition(seen.pod, "PodScheduled").get("message")).lower():
        unbound = {name: bound.get(name) for name in seen.mounted if bound.get(name) != "Bound"}
        waits |= {name: "is not bound" if phase else "does not exist" for name, phase in unbound.items()}
    for job in seen.jobs:
        filled = {name: _unfilled(job) for name in filled_by(job) if name in seen.mounted}
        waits |= {name: how for name, how in filled.items() if how}
    if not waits:
        return None
    return Verdict(Phase.PROGRESSING, "StorageNotReady", ", ".join(f"{name} {how}" for name, how in waits.items()))


def _unfilled(job: Object) -> str:
    if condition(job, "Complete").get("status") == "True":
        return ""
    broken = condition(job, "Failed")
    return f"cannot be filled: {broken.get('message', '')}" if broken.get("status") == "True" else "is being filled"


def _unscheduled(seen: Seen) -> Verdict | None:
    scheduled = condition(seen.pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return None
    return Verdict(Phase.PENDING, str(scheduled.get("reason") or "Unschedulable"), str(scheduled.get("message") or ""))


def _progressing(seen: Seen) -> Verdict:
    pod = seen.pod
    if pod is None:
        old = "its old pod has been told to end" if seen.pods else "it has no pod yet"
        return Verdict(Phase.PROGRESSING, "UnitProgressing", old)
    told = events_of(seen.events, pod)
    if running(pod, UNIT):
        unhealthy = [str(event.get("message")) for event in told if event.get("reason") == "Unhealthy"]
        return Verdict(Phase.PROGRESSING, "NotReady", unhealthy[-1] if unhealthy else "its program is starting")
    newest = told[-1] if told else {}
    if newest.get("reason") == "Pulling" or newest.get("type") == "Warning":
        return Verdict(Phase.PROGRESSING, str(newest["reason"]), str(newest.get("message") or ""))
    busy = [status["name"] for status in statuses(pod) if status["name"] not in {EXIT, TUNNEL} and not _done(status)]
    return Verdict(Phase.PROGRESSING, "UnitProgressing", f"container {busy[0]} starts" if busy else "its pod starts")


def _done(status: Object) -> bool:
    return terminated(status) is not None


RULES: tuple[Callable[[Seen], Verdict | None], ...] = (
    _absent,
    _stopped,
    _exited,
    _ready,
    _failed,
    _storage,
    _unscheduled,
    _progressing,
)


def ssh_of(seen: Seen, verdict: Verdict) -> SshVerdict:
    """Judge by what tunnel client and tier say and gate and sshd know whether a login works; not by readiness."""
    if not seen.has_ssh:
        return SshVerdict(Ssh.DISABLED, "NoSsh")
    tunnel = status_of(seen.pod, TUNNEL)
    broken = container_failure(tunnel) if tunnel else None
    if broken and verdict.phase is not Phase.STOPPED:
        return SshVerdict(Ssh.FAILED, *broken)
    if verdict.phase is Phase.STOPPING or not running(seen.pod, UNIT):
        return SshVerdict(Ssh.PENDING, verdict.reason, verdict.message)
    if seen.log is None:
        return SshVerdict(Ssh.PENDING, NOT_READ, "the log of its container `tunnel` was not read")
    said = evidence(seen.log)
    found = _by_links(said, "yet" if _young(seen) else "lately")
    closed = turned_away(seen, said.host) if found.state is Ssh.REACHABLE else None
    return SshVerdict(Ssh.PENDING, *closed) if closed else found


def _young(seen: Seen) -> bool:
    """Say whether the tunnel client runs for less than the time that its log was read of."""
    begun = moment((running(seen.pod, TUNNEL) or {}).get("startedAt"))
    if begun is None or seen.read is None:
        return False
    return (seen.read - begun).total_seconds() < MINUTES_SECONDS


def _by_links(said: Evidence, since: str) -> SshVerdict:
    if said.whole:
        return SshVerdict(Ssh.REACHABLE, "Announced")
    if not said.links:
        return SshVerdict(Ssh.PENDING, "NoEvidence", said.complaint or f"its tunnel client has said nothing {since}")
    others = ", ".join(link.text for link in said.links if link not in said.announced)
    if said.announced:
        count = f"by {len(said.announced)} of {len(said.links)} servers"
        return SshVerdict(Ssh.REACHABLE, "AnnouncedInPart", f"{count}: {others}")
    states = {link.state for link in said.links}
    worst = next((word for state, word in PENDING_BECAUSE.items() if state in states), "NotAnnounced")
    return SshVerdict(Ssh.PENDING, worst, others)


PENDING_BECAUSE = {"refused": "HostRefused", "idle": "SshdNotReady", "down": "NotConnected"}
"""State of a link to the reason for it, what its owner can mend first."""
