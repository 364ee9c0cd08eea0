"""Why a unit's pod does not run: the words of kubelet, scheduler and API server, made one sentence."""

from status.objects import UNIT, Object, Seen, condition, lasted, statuses, terminated

STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons to wait that are none to worry."""

Failure = tuple[str, str]
"""Reason in one word, message."""


def failure(seen: Seen) -> Failure | None:
    """Say why the unit fails: its containers first, then its pod, then what keeps it from having one."""
    if seen.pod:
        return _pod_failure(seen.pod)
    refused = condition(seen.deployment, "ReplicaFailure")
    if refused.get("status") == "True":
        return str(refused.get("reason", "FailedCreate")), str(refused.get("message", ""))
    return None


def _pod_failure(pod: Object) -> Failure | None:
    found = (container_failure(status) for status in statuses(pod))
    if first := next(filter(None, found), None):
        return first
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        return str(status.get("reason") or "PodFailed"), str(status.get("message") or "its pod ended")
    return None


def container_failure(status: Object) -> Failure | None:
    """Say why a container fails, None where it does not: it waits for something odd, or ended with an error."""
    name = status["name"]
    waiting = (status.get("state") or {}).get("waiting") or {}
    reason = str(waiting.get("reason") or "")
    if reason not in STARTING:
        last = terminated(status, "lastState")
        if reason == "CrashLoopBackOff" and last:
            times = status.get("restartCount", 0)
            return reason, f"{ending(name, last)} (started again {times} times)"
        return reason, _in(name, str(waiting.get("message") or ""))
    ended = terminated(status)
    if ended and (ended.get("exitCode") or ended.get("signal")):
        return word(ended), ending(name, ended)
    return None


def word(ended: Object) -> str:
    """Give the reason of an end; Kubernetes' own `Error` says nothing."""
    reason = str(ended.get("reason") or "")
    return "ExitedWithError" if reason in {"", "Error"} else reason


def ending(name: str, ended: Object) -> str:
    """Say how a container ended, with the last that it said."""
    seconds, code, signal = lasted(ended), ended.get("exitCode"), ended.get("signal")
    who = "its program" if name == UNIT else f"container {name}"
    how = f"ended by signal {signal}" if signal else f"ended with {code}"
    if ended.get("reason") == "OOMKilled":
        how = f"was killed for using more memory than it has (OOMKilled, {code})"
    after = "" if seconds is None else f" after {seconds:.0f} s"
    last = printable(str(ended.get("message") or "").strip())
    return f"{who} {how}{after}" + (f": {last}" if last else "")


def printable(text: str) -> str:
    """Write what a tenant's program said so that it cannot play tricks with a terminal; its lines stay lines."""
    return "".join(one if one.isprintable() or one in "\n\t" else _escaped(one) for one in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _in(name: str, message: str) -> str:
    return message if name == UNIT or not message else f"container {name}: {message}"
