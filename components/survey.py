"""What the cluster says of a stack's units, read with the deployer's rights: a few lists, and logs where asked."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx2
from lightkube import Client
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import ConfigMap, Event, PersistentVolumeClaim, Pod, Service
from lightkube.resources.discovery_v1 import EndpointSlice
from status.evidence import LINES, MINUTES_SECONDS
from status.existence import BESIDE
from status.objects import TUNNEL, Object, Seen, running
from status.states import Phase, State, state_of
from status.tier import SERVICE_LABEL, SHUT

from components import cluster, names
from components.cluster_view import PAGE

EVERYWHERE = "*"

KEPT_SECONDS = 5.0
"""So long a look takes units' Services and keys as they were: all keys of a stack can be megabytes, twice a second."""

UNITS: names.Labels = {"app.kubernetes.io/part-of": names.PROJECT, names.COMPONENT_LABEL: "unit"}
"""Of the Services that the gate knows units by."""

AnswerT = TypeVar("AnswerT")

WELL = frozenset({Phase.READY, Phase.STOPPED, Phase.EXITED, Phase.ABSENT})
"""Phases of which no event tells more."""


@dataclass(frozen=True, order=True)
class Place:
    """Where a unit is."""

    namespace: str
    unit: str


@dataclass(frozen=True)
class Judged:
    """A unit, what the cluster says of it, and what follows."""

    place: Place
    seen: Seen
    state: State


@dataclass(frozen=True)
class Survey:
    """The cluster's word on a stack's units, by place; ask for their states with ``states``."""

    deployments: Mapping[Place, list[Object]]
    pods: Mapping[Place, list[Object]]
    claims: Mapping[str, list[Object]]
    """By namespace, like the jobs."""
    jobs: Mapping[str, list[Object]]
    tier: tuple[Object, ...] | None = None
    """EndpointSlices of the tunnel tier; None where nobody asked, or they may not be listed."""
    services: Mapping[str, list[Object]] | None = None
    """Units' Services by namespace, of whatever stack, as the gate sees them; None likewise."""
    keys: Mapping[str, list[Object]] | None = None
    """Units' ConfigMaps by namespace; None where they may not be listed."""

    def seen(self, place: Place) -> Seen:
        """Give what is known of one unit without its events and its log."""
        return Seen(
            deployment=next(iter(self.deployments.get(place, ())), None),
            pods=tuple(self.pods.get(place, ())),
            claims=tuple(self.claims.get(place.namespace, ())),
            jobs=tuple(self.jobs.get(place.namespace, ())),
            tier=self.tier,
            services=None if self.services is None else tuple(self.services.get(place.namespace, ())),
            keys=None if self.keys is None else tuple(self.keys.get(place.namespace, ())),
        )


def survey(
    client: Client,
    owner: str,
    namespaces: Iterable[str],
    *,
    tier: bool = False,
    gated: bool = False,
    before: Survey | None = None,
) -> Survey:
    """List what stack *owner* has: in the whole cluster, or where that may not be listed in its *namespaces*.

    *tier*: its units are reached through the cluster's own tunnel tier, which is looked at, too; *gated*: a gate of
    ours, wherever that is, admits them by their Services; *before*: take Services and keys from there.
    Seven questions, however many units there are. Raises what the client raises; see ``cluster.answered``.
    """
    within = sorted(set(namespaces))
    ours = {names.OWNER_LABEL: owner}

    def listed(kind: Any, component: str) -> Iterator[Object]:
        return listed_everywhere(client, kind, within, {**ours, names.COMPONENT_LABEL: component})

    def known_to_the_gate() -> dict[str, list[Object]]:
        return _by(_namespace, listed_everywhere(client, Service, within, UNITS))

    return Survey(
        deployments=_by(_place, listed(Deployment, "unit")),
        pods=_by(_place, listed(Pod, "unit")),
        claims=_by(_namespace, listed(PersistentVolumeClaim, "storage")),
        jobs=_by(_namespace, listed(Job, "prepare")),
        tier=_if_allowed(lambda: tuple(_tier(client))) if tier else None,
        services=before.services if before else _if_allowed(known_to_the_gate) if gated else None,
        keys=before.keys if before else _if_allowed(lambda: _by(_namespace, listed(ConfigMap, "unit"))),
    )


def _tier(client: Client) -> Iterator[Object]:
    """List what stands behind the tier's Services."""
    services: dict[str, Any] = {SERVICE_LABEL: list(SHUT)}
    found = client.list(EndpointSlice, namespace=names.PLATFORM_NAMESPACE, labels=services)
    return (one.to_dict() for one in found)


def _if_allowed(ask: Callable[[], AnswerT]) -> AnswerT | None:
    """Give the answer to a question, None where it may not be asked."""
    try:
        return ask()
    except httpx2.HTTPStatusError as error:
        if error.response.status_code != httpx2.codes.FORBIDDEN:
            raise
        return None


def states(client: Client, found: Survey, places: Iterable[Place], *, logs: bool = True) -> Iterator[Judged]:
    """Judge the units at *places*; events of namespaces with trouble, logs (if *logs*) of units that run with SSH."""
    events: dict[str, tuple[Object, ...]] = {}
    for place in places:
        seen = found.seen(place)
        if state_of(seen).unit.phase not in WELL and place.namespace not in events:
            events[place.namespace] = events_in(client, place.namespace)
        whole = replace(
            seen,
            events=events.get(place.namespace, ()),
            log=tunnel_log(client, place.namespace, seen) if logs else None,
            read=datetime.now(UTC),
        )
        yield Judged(place, whole, state_of(whole))


@dataclass
class Looker:
    """Looks again and again at the units of one stack, through one connection that is made when first needed."""

    kubeconfig: str
    context: str
    owner: str
    tier: bool = False
    """Whether the units are reached through the cluster's own tunnel tier."""
    gated: bool = False
    """Whether a gate of ours admits them."""
    client: Client | None = None
    clock: Callable[[], float] = time.monotonic
    before: tuple[float, Survey] | None = None
    """When Services and keys were asked for, and the answer."""

    def __call__(self, places: Iterable[Place], *, logs: bool) -> list[Judged]:
        """Judge the units at *places*. Raises UnreachableError when the cluster does not answer.

        Services and keys may be as they were KEPT_SECONDS ago; what then speaks against a unit is asked for anew.
        """
        wanted = list(places)
        with cluster.ONE_AT_A_TIME, cluster.answered():
            self.client = self.client or cluster.connect(self.kubeconfig, self.context)
            within = (place.namespace for place in wanted)
            asked, before = self.before or (self.clock(), None)
            if self.clock() - asked >= KEPT_SECONDS:
                asked, before = self.clock(), None
            found = survey(self.client, self.owner, within, tier=self.tier, gated=self.gated, before=before)
            judged = list(states(self.client, found, wanted, logs=logs))
            refused = any(one.state.ssh.reason in BESIDE for one in judged)
            self.before = None if refused else (asked, found)
            return judged


def events_in(client: Client, namespace: str, kind: str | None = "Pod") -> tuple[Object, ...]:
    """Give the events of a namespace about one *kind*, None: about all; none where they may not be listed."""
    about: dict[str, Any] = {"involvedObject.kind": kind} if kind else {}
    try:
        return tuple(e.to_dict() for e in client.list(Event, namespace=namespace, fields=about, chunk_size=PAGE))
    except httpx2.HTTPStatusError as error:
        if error.response.status_code != httpx2.codes.FORBIDDEN:
            raise
        return ()


def tunnel_log(client: Client, namespace: str, seen: Seen) -> tuple[str, ...] | None:
    """Give what a unit's tunnel client said lately, nothing where there is none; None where it may not be read."""
    if not seen.has_ssh or seen.pod is None or not running(seen.pod, TUNNEL):
        return ()
    try:
        lines = client.log(
            str(seen.pod["metadata"]["name"]),
            namespace=namespace,
            container=TUNNEL,
            since=MINUTES_SECONDS,
            tail_lines=LINES,
            newlines=False,
        )
        return tuple(lines)
    except httpx2.HTTPStatusError as error:
        if error.response.status_code == httpx2.codes.FORBIDDEN:
            return None
        if error.response.status_code >= httpx2.codes.INTERNAL_SERVER_ERROR:
            raise
        return ()  # it went, or is not there yet


def listed_everywhere(client: Client, kind: Any, namespaces: list[str], labels: names.Labels) -> Iterator[Object]:
    """List objects of *kind* with *labels* in the whole cluster; where that is forbidden, in *namespaces*."""
    selector: dict[str, Any] = dict(labels)
    try:
        found = list(client.list(kind, namespace=EVERYWHERE, labels=selector, chunk_size=PAGE))
    except httpx2.HTTPStatusError as error:
        if error.response.status_code != httpx2.codes.FORBIDDEN:
            raise
        found = [
            one
            for namespace in namespaces
            for one in client.list(kind, namespace=namespace, labels=selector, chunk_size=PAGE)
        ]
    return (one.to_dict() for one in found)


def _place(one: Object) -> Place:
    return Place(one["metadata"]["namespace"], one["metadata"]["labels"]["app.kubernetes.io/instance"])


def _namespace(one: Object) -> str:
    return str(one["metadata"]["namespace"])


def _by(key: Any, objects: Iterable[Object]) -> dict[Any, list[Object]]:
    found: dict[Any, list[Object]] = {}
    for one in objects:
        found.setdefault(key(one), []).append(one)
    return found
