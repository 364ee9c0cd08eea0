"""When to stop waiting for a unit: it has arrived, is broken for sure, or its time is over."""

from dataclasses import dataclass, field

from status.failures import ending
from status.objects import UNIT, Seen, lasted, running, status_of, terminated
from status.states import NOT_READ, Phase, Ssh, State

AT_ONCE = frozenset({"CrashLoopBackOff", "InvalidImageName"})
"""Failures that no waiting mends: Kubernetes has tried more than once, or never will."""

TROUBLE_SECONDS = 45.0
"""How long any other failure may last: three pulls of an image, a Secret that somebody makes a moment later."""

PART_SECONDS = 20.0
"""How long the other tunnel servers get once a login works by one."""

ROUNDING_SECONDS = 1.0
"""Kubernetes tells times in whole seconds."""


@dataclass(frozen=True)
class Outcome:
    """How the waiting ended."""

    arrived: bool
    message: str
    warning: bool = False
    """Arrived, and still somebody should know."""


@dataclass
class Wait:
    """One unit that is waited for. Times are seconds of any clock that only goes forward."""

    alias: str
    timeout: float
    start_seconds: float
    """So long a program must run; 0 where there is none that could end."""
    begun: float
    troubled: float | None = None
    reached: float | None = None
    steady: tuple[str, float] | None = field(default=None)
    """The start of the container that was last seen to run, and when that was first seen."""

    def look(self, seen: Seen, state: State, now: float) -> Outcome | None:
        """Take in what is there at *now*; None: wait on."""
        if not current(seen):
            return self._late(state, now)
        self._remember(seen, state, now)
        if broken := self._broken(seen, state, now):
            return Outcome(arrived=False, message=broken)
        return self._arrived(state, now) or self._late(state, now)

    def _remember(self, seen: Seen, state: State, now: float) -> None:
        begun = str((running(seen.pod, UNIT) or {}).get("startedAt") or "")
        if self.steady is None or self.steady[0] != begun:
            self.steady = begun, now
        trouble = state.unit.phase is Phase.FAILED or state.ssh.state is Ssh.FAILED
        self.troubled = (now if self.troubled is None else self.troubled) if trouble else None
        reachable = state.ssh.state is Ssh.REACHABLE
        self.reached = (now if self.reached is None else self.reached) if reachable else None

    def _broken(self, seen: Seen, state: State, now: float) -> str | None:
        if early := ended_early(seen, self.start_seconds):
            return early
        if self.troubled is None:
            return None
        unit, ssh = state.unit, state.ssh
        reason, message = (unit.reason, unit.message) if unit.phase is Phase.FAILED else (ssh.reason, ssh.message)
        if reason in AT_ONCE or now - self.troubled >= TROUBLE_SECONDS:
            return f"{reason}: {message}" if message else reason
        return None

    def _arrived(self, state: State, now: float) -> Outcome | None:
        phase, ssh = state.unit.phase, state.ssh
        if phase is Phase.STOPPED:
            return Outcome(arrived=True, message="stopped")
        if phase is Phase.EXITED:
            return Outcome(
                arrived=True, message=f"{state.unit.text}: {state.unit.message}", warning=bool(state.unit.code)
            )
        if not self._is_steady(now):
            return None
        if ssh.state is Ssh.REACHABLE:
            return self._reachable(state, now)
        blind = ssh.reason == NOT_READ
        if phase is Phase.READY and (ssh.state is Ssh.DISABLED or blind):
            unknown = "runs; whether a login works is not known: you may not read logs of its pod (pods/log)"
            return Outcome(arrived=True, message=unknown if blind else "runs", warning=blind)
        return None

    def _is_steady(self, now: float) -> bool:
        """Say whether the program runs for as long as it must."""
        return self.steady is not None and bool(self.steady[0]) and now - self.steady[1] >= self.start_seconds

    def _reachable(self, state: State, now: float) -> Outcome | None:
        if state.ssh.reason == "Announced":
            return Outcome(arrived=True, message="a login works")
        if self.reached is not None and now - self.reached >= PART_SECONDS:
            return Outcome(arrived=True, message=f"a login works {state.ssh.message}", warning=True)
        return None

    def _late(self, state: State, now: float) -> Outcome | None:
        if now - self.begun < self.timeout:
            return None
        return Outcome(arrived=False, message=f"not there after {now - self.begun:.0f} s (its timeout): {doing(state)}")


def current(seen: Seen) -> bool:
    """Say whether what is seen is of the Deployment as it is now, and no pod of what it was before."""
    deployment = seen.deployment
    if deployment is None:
        return False
    status = deployment.get("status") or {}
    if (status.get("observedGeneration") or 0) < (deployment["metadata"].get("generation") or 0):
        return False
    return seen.pod is None or bool(status.get("updatedReplicas")) or deployment["spec"].get("replicas") == 0


def ended_early(seen: Seen, start_seconds: float) -> str | None:
    """Say how the program ended with an error within *start_seconds* of its start, now or the last time; 0: never."""
    if not start_seconds:
        return None
    status = status_of(seen.pod, UNIT)
    for which in ("state", "lastState"):
        ended = terminated(status, which)
        seconds = lasted(ended) if ended else None
        if ended and ended.get("exitCode") and seconds is not None and seconds <= start_seconds + ROUNDING_SECONDS:
            return ending(UNIT, ended)
    return None


def doing(state: State) -> str:
    """Say what a unit that has not arrived is doing."""
    unit, ssh = state.unit, state.ssh
    if unit.phase in {Phase.READY, Phase.EXITED} or ssh.message not in {"", unit.message}:
        said = f"{ssh.reason}: {ssh.message}" if ssh.message else ssh.reason
        return f"{unit.text}, ssh {ssh.state.value}, {said}" if ssh.state is not Ssh.DISABLED else unit.text
    return f"{unit.text}, {unit.reason}" + (f": {unit.message}" if unit.message else "")
