"""Runs the probe that the graph made once more, waits for its verdict, and takes the Job away again."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx2
from lightkube import ApiError, Client
from lightkube.models.batch_v1 import JobSpec
from lightkube.models.core_v1 import PodTemplateSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Event, Pod
from lightkube.types import CascadeType

from components import cluster, names
from components.wording import shortened
from tools.shell import HEARTBEAT_SECONDS, ToolError, say

LABELS: dict[str, Any] = names.component_selector("probe")

POLL_SECONDS = 0.15

PATIENCE_SECONDS = 120
"""For a pod to be placed, to pull an image at worst, and to try everything: 4 s where the walls hold."""

KEPT_SECONDS = 300
"""After its end, for the Job of a run that was killed before it could take it away."""

FINAL = ("Back-off pulling image", "Error creating")
"""How a kubelet says that an image was not to be had more than once, and the cluster that it makes no pod."""

SHOWN = 6
"""Targets named in the refusal; the table has all."""


@dataclass(frozen=True)
class Site:
    """Where a stack is: *owner* is its name."""

    owner: str
    kubeconfig: str | None
    context: str

    @property
    def namespace(self) -> str:
        """Name the namespace of its probe."""
        return names.probe_namespace(self.owner)


@dataclass(frozen=True)
class Verdict:
    """What a probe's pod came to: its exit status and what it said."""

    status: int
    log: str

    @property
    def summary(self) -> dict[str, Any]:
        """Give the line for programs: ok, targets, wrong...; empty where there is none."""
        lines = [line for line in self.log.splitlines() if line.startswith("{")]
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return found


def prove(site: Site, *, table: bool = False) -> None:
    """Run a fresh probe; *table* shows all that it found also where the walls hold.

    Raises ToolError when they do not, and when nobody can tell.
    """
    with reached(site) as client:
        try_walls(client, site, table=table)


@contextmanager
def reached(site: Site) -> Iterator[Client]:
    """Connect to the cluster of *site*; one that does not answer is a ToolError: nobody knows of its walls."""
    try:
        client = cluster.connect(cluster.kubeconfig_path(site.kubeconfig), site.context)
        with cluster.answered():
            yield client
    except cluster.UnreachableError as error:
        raise ToolError(f"nobody knows whether the walls hold: {error}") from None


def try_walls(client: Client, site: Site, *, table: bool) -> None:
    """Do what `prove` does on a cluster that is connected to."""
    started = time.monotonic()
    verdict = _run(client, site)
    if verdict.status or table:
        say(verdict.log.rstrip())
    if verdict.status:
        raise ToolError(refusal(verdict))
    say(f"walls hold: {verdict.summary.get('targets')} targets tried in {time.monotonic() - started:.1f} s")


def refusal(verdict: Verdict) -> str:
    """Say in one sentence what is wrong, and what to do."""
    wrong: dict[str, str] = verdict.summary.get("wrong", {})
    if opened := [name for name, found in wrong.items() if found == "open"]:
        return (
            f"policies are not enforced on this cluster: {shortened(opened, SHOWN)} answer a pod in a "
            "tenant's walls; look after the network plugin, or install one that enforces NetworkPolicy, and run again"
        )
    if wrong:
        return (
            f"nobody knows whether the walls hold: {', '.join(wrong)} could not be tried or does not answer; "
            "look after cluster DNS and gpu-runtime:cluster.dns, and run again"
        )
    last = (verdict.log.strip().splitlines() or ["it said nothing"])[-1]
    return f"nobody knows whether the walls hold: the probe ended with status {verdict.status}: {last}"


def _run(client: Client, site: Site) -> Verdict:
    with _job(client, site) as name:
        return wait(client, site, name)


def wait(client: Client, site: Site, name: str) -> Verdict:
    """Wait for the verdict of the probe's Job *name*, and say how it stands.

    Raises ToolError when there is none in time, or can be none since the image is not to be had.
    """
    said = time.monotonic()
    end = said + PATIENCE_SECONDS
    while (verdict := _verdict(client, site, name)) is None:
        now = time.monotonic()
        state = _state(client, site, name) if now - said >= HEARTBEAT_SECONDS else None
        if now > end or (state and any(final in state for final in FINAL)):
            raise ToolError(f"nobody knows whether the walls hold: {state or _state(client, site, name)}")
        if state:
            said = now
            say(f"probe: {state}")
        time.sleep(POLL_SECONDS)
    return verdict


@contextmanager
def _job(client: Client, site: Site) -> Iterator[str]:
    """Make a Job like the graph's and give its name; whatever happens, it goes with its pod."""
    made = client.create(_like(_newest(client, site), site))
    name = _meta(made).name or ""
    try:
        yield name
    finally:
        with suppress(httpx2.HTTPError):  # then it goes by itself, KEPT_SECONDS after its end
            client.delete(Job, name, namespace=site.namespace, cascade=CascadeType.BACKGROUND)


def _newest(client: Client, site: Site) -> Job:
    """Find the Job that the graph made last. Raises ToolError where it never did."""
    jobs = client.list(Job, namespace=site.namespace, labels=LABELS)
    ours = [job for job in jobs if not _meta(job).generateName]
    if not ours:
        advice = f"`make up STACK={site.owner} REFRESH=1` makes it"
        raise ToolError(f"stack {site.owner} has no probe in namespace {site.namespace}; {advice}")
    return max(ours, key=lambda job: str(_meta(job).creationTimestamp))


def _like(job: Job, site: Site) -> Job:
    template = job.spec.template.spec if job.spec else None
    labels = {key: value for key, value in (_meta(job).labels or {}).items() if "/" in key}
    return Job(
        metadata=ObjectMeta(generateName="probe-fresh-", namespace=site.namespace, labels=labels),
        spec=JobSpec(
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=template),
            backoffLimit=0,
            activeDeadlineSeconds=PATIENCE_SECONDS,
            ttlSecondsAfterFinished=KEPT_SECONDS,
        ),
    )


def _verdict(client: Client, site: Site, job: str) -> Verdict | None:
    """Give the verdict of the Job's pod, or None while it runs."""
    pod = _pod(client, site, job)
    statuses = (pod.status.containerStatuses or []) if pod and pod.status else []
    ended = next((s.state.terminated for s in statuses if s.state and s.state.terminated), None)
    if pod is None or ended is None:
        return None
    return Verdict(ended.exitCode, "".join(_log(client, site, pod)) or ended.message or "")


def _state(client: Client, site: Site, job: str) -> str:
    """Say what a Job waits for."""
    pod = _pod(client, site, job)
    if pod is None or pod.status is None:
        return f"no pod for Job {site.namespace}/{job} yet{_refused(client, site, job)}"
    if pod.status.phase == "Running":
        return "".join(_log(client, site, pod, tail_lines=1)).strip()
    statuses = pod.status.containerStatuses or []
    waiting = next((s.state.waiting for s in statuses if s.state and s.state.waiting), None)
    unplaced = next((c.message for c in pod.status.conditions or [] if c.status == "False" and c.message), None)
    why = (waiting.message or waiting.reason) if waiting else unplaced
    return f"pod {_meta(pod).name} is {pod.status.phase}{f': {why}' if why else ''}"


def _refused(client: Client, site: Site, job: str) -> str:
    """Say why a Job's pod is not made: a quota, an admission."""
    events = client.list(Event, namespace=site.namespace, fields={"involvedObject.name": job})
    return next((f": {event.message}" for event in events if event.reason == "FailedCreate"), "")


def _log(client: Client, site: Site, pod: Pod, *, tail_lines: int | None = None) -> Iterator[str]:
    """Yield lines of a pod's log; none when the node cannot be asked."""
    with suppress(ApiError):
        yield from client.log(_meta(pod).name or "", namespace=site.namespace, tail_lines=tail_lines)


def _pod(client: Client, site: Site, job: str) -> Pod | None:
    return next(iter(client.list(Pod, namespace=site.namespace, labels={"job-name": job})), None)


def _meta(thing: Job | Pod) -> ObjectMeta:
    return thing.metadata or ObjectMeta()
