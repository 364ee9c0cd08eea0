"""What the cluster says of one unit, as plain objects in Kubernetes' own words, and the questions asked of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

Object = dict[str, Any]

SKEW = timedelta(seconds=10)
"""Between the clocks of two API servers, at most; a claim and its Job are made in one second."""

UNIT, TUNNEL, EXIT = "unit", "tunnel", "exit"
"""Containers of a unit's pod: the user's program, the tunnel client, the one that ends with the program's code."""


@dataclass(frozen=True)
class Seen:
    """All that is known of a unit; what nobody asked for is empty."""

    deployment: Object | None
    pods: tuple[Object, ...] = ()
    """Its own."""
    events: tuple[Object, ...] = ()
    """Of its namespace, in any order."""
    claims: tuple[Object, ...] = ()
    """Of its namespace."""
    jobs: tuple[Object, ...] = ()
    """That fill volumes of its namespace."""
    log: tuple[str, ...] | None = None
    """The tunnel client's lines of the last minutes, oldest first; None: not read."""
    read: datetime | None = None
    """When the log was read."""
    tier: tuple[Object, ...] | None = None
    """EndpointSlices of the tunnel tier; None: it is elsewhere, or may not be seen."""
    services: tuple[Object, ...] | None = None
    """Units' Services of its namespace, by which the gate knows them; None: no gate of ours, or not to be seen."""
    keys: tuple[Object, ...] | None = None
    """Units' ConfigMaps of its namespace; None: they may not be seen."""

    @property
    def pod(self) -> Object | None:
        """Give the newest pod that is not on its way out."""
        living = [pod for pod in self.pods if not pod["metadata"].get("deletionTimestamp")]
        return max(living, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default=None)

    @property
    def template(self) -> Object:
        """Give the spec of the pods that the Deployment makes."""
        found: Object = ((self.deployment or {}).get("spec") or {}).get("template", {}).get("spec") or {}
        return found

    @property
    def has_ssh(self) -> bool:
        """Say whether a tunnel client is part of the unit."""
        return any(container["name"] == TUNNEL for container in self.template.get("containers") or ())

    @property
    def mounted(self) -> list[str]:
        """Name the claims that the unit mounts."""
        return claims_of(self.template)

    @property
    def gpus(self) -> int:
        """Count the GPUs that it was given, by what the platform tells its program."""
        said = (env for one in self.template.get("containers") or () for env in one.get("env") or ())
        counts = [env.get("value", "") for env in said if env["name"] == "GPU_COUNT"]
        return int(counts[0]) if counts and counts[0].isdigit() else 0


def claims_of(pod_spec: Object) -> list[str]:
    """Name the claims that a pod mounts."""
    return [claim["claimName"] for claim in _claims(pod_spec)]


def filled_by(job: Object) -> list[str]:
    """Name the claims that a Job fills: not those that it copies from."""
    return [claim["claimName"] for claim in _claims(job["spec"]["template"]["spec"]) if not claim.get("readOnly")]


def _claims(pod_spec: Object) -> list[Object]:
    volumes = (volume.get("persistentVolumeClaim") for volume in pod_spec.get("volumes") or ())
    return [claim for claim in volumes if claim]


def statuses(pod: Object) -> Iterator[Object]:
    """Yield the states of a pod's containers, those that start first before the others."""
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def status_of(pod: Object | None, container: str) -> Object:
    """Give the state of one container; empty where there is none yet."""
    return next((status for status in statuses(pod or {}) if status["name"] == container), {})


def running(pod: Object | None, container: str) -> Object | None:
    """Give what is said of a container that runs, else None."""
    found: Object | None = (status_of(pod, container).get("state") or {}).get("running")
    return found


def terminated(status: Object, which: str = "state") -> Object | None:
    """Give how a container ended: now (``state``) or the time before (``lastState``)."""
    found: Object | None = (status.get(which) or {}).get("terminated")
    return found


def condition(thing: Object | None, kind: str) -> Object:
    """Give a condition of a pod or a Deployment; empty where there is none."""
    listed = ((thing or {}).get("status") or {}).get("conditions") or ()
    return next((one for one in listed if one["type"] == kind), {})


def moment(text: object) -> datetime | None:
    """Read Kubernetes' time."""
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None


def before(first: object, second: object) -> bool:
    """Say whether one of Kubernetes' times is surely before another, as far as both are known."""
    one, other = moment(first), moment(second)
    return one is not None and other is not None and one + SKEW < other


def lasted(ended: Object) -> float | None:
    """Give the seconds that a container ran before it *ended*, None where its start or end is not known."""
    start, end = moment(ended.get("startedAt")), moment(ended.get("finishedAt"))
    return (end - start).total_seconds() if start and end else None


def events_of(events: tuple[Object, ...], pod: Object) -> list[Object]:
    """Give the events of a pod, the oldest first."""
    name = pod["metadata"]["name"]
    own = [event for event in events if (event.get("involvedObject") or {}).get("name") == name]
    return sorted(own, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
