"""What the cluster says of one storage, as plain objects in Kubernetes' own words, and the questions asked of them."""

from dataclasses import dataclass

from status.objects import Object, Seen, condition

PREPARE = "prepare"
"""Container of a Job's pod that fills the volume."""

JOB_ANNOTATION = "gpu-runtime/prepare"
REVISION_ANNOTATION = "gpu-runtime/prepare-revision"
"""On a claim: the Job that fills its volume, and how often its owner asked for that anew."""

SHOWN_ANNOTATION = "gpu-runtime/shown"
"""On a claim: `true` where its volume is to have a browser."""


@dataclass(frozen=True)
class StorageSeen:
    """All that is known of a storage; what nobody asked for is empty."""

    claim: Object | None
    jobs: tuple[Object, ...] = ()
    """That fill it, or did."""
    pods: tuple[Object, ...] = ()
    """Of those Jobs."""
    browser: Object | None = None
    """The Deployment that shows it."""
    browser_pods: tuple[Object, ...] = ()
    events: tuple[Object, ...] = ()
    """Of its namespace, in any order."""

    @property
    def wanted_job(self) -> str | None:
        """Name the Job that fills the volume; None where nothing is to be prepared."""
        found = annotations(self.claim).get(JOB_ANNOTATION)
        return None if found is None else str(found)

    @property
    def job(self) -> Object | None:
        """Give the Job that fills the volume, if it is there: of another content it does not count."""
        return next((job for job in self.jobs if job["metadata"]["name"] == self.wanted_job), None)

    @property
    def again(self) -> bool:
        """Say whether its owner asked for the same content anew."""
        return str(annotations(self.claim).get(REVISION_ANNOTATION) or "0") != "0"

    @property
    def job_pods(self) -> list[Object]:
        """Give the pods of the Job, the oldest first."""
        own = [pod for pod in self.pods if owner_of(pod) == self.wanted_job]
        return sorted(own, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))

    @property
    def to_be_shown(self) -> bool:
        """Say whether a browser is asked for."""
        return annotations(self.claim).get(SHOWN_ANNOTATION) == "true"

    @property
    def shown(self) -> Seen:
        """Give the browser as one looks at a unit."""
        return Seen(self.browser, self.browser_pods, self.events)

    def events_about(self, thing: Object) -> list[Object]:
        """Give the events of one object, the oldest first."""
        name = thing["metadata"]["name"]
        own = [event for event in self.events if (event.get("involvedObject") or {}).get("name") == name]
        return sorted(own, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))

    def waits(self, pod: Object) -> tuple[str, str]:
        """Say what a pod waits for that has not begun, in a word and a sentence."""
        scheduled = condition(pod, "PodScheduled")
        if scheduled.get("status") == "False":
            return str(scheduled.get("reason") or "Unschedulable"), str(scheduled.get("message") or "")
        told = self.events_about(pod)
        newest = told[-1] if told else {}
        if newest.get("type") == "Warning" or newest.get("reason") == "Pulling":
            return str(newest["reason"]), str(newest.get("message") or "")
        return "Starting", "its pod starts"


def annotations(thing: Object | None) -> Object:
    """Give the annotations of an object."""
    found: Object = ((thing or {}).get("metadata") or {}).get("annotations") or {}
    return found


def owner_of(pod: Object) -> str | None:
    """Name the Job that made a pod."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(one["name"]) for one in owners if one.get("kind") == "Job"), None)
