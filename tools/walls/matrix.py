"""The verdict matrix of a stack: every pod against every place, from the rendered manifests alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from components.dns import DnsSpec
from policy.ends import End, Pod
from policy.reach import Reach, Verdict
from stacks.resolve import Stack
from tools.walls.places import Place, Way, internet, place_name, places, services, site_ranges
from tools.walls.site import Site, nominal

OUTSIDE: Final = "outside"
"""As a source: whoever is on the internet."""

FROM_OUTSIDE: Final = frozenset({"pod", "node"})
"""Groups of places that packets from outside may come to."""


class Source(NamedTuple):
    """Who begins connections; one that is no pod has an address of either family, or of one."""

    name: str
    ends: Mapping[int, End]
    """IP version to end."""
    pod: Pod | None = None


class Cell(NamedTuple):
    """One source, one place, and whether a connection may be opened."""

    source: Source
    place: Place
    open: bool
    verdict: Verdict

    @property
    def why(self) -> str:
        """Give the reason; asked for one cell it is cheap, for a million it is not."""
        return self.verdict.why

    def plain(self) -> dict[str, Any]:
        """Give the cell as JSON has it."""
        return {
            "source": self.source.name,
            "destination": f"{self.place.group}: {self.place.name}",
            "address": str(self.place.address),
            "protocol": self.place.protocol,
            "port": self.place.port,
            "open": self.open,
            "why": self.why,
        }


@dataclass(frozen=True)
class Matrix:
    """Sources and places of a stack, and the policies that decide."""

    reach: Reach
    sources: tuple[Source, ...]
    places: tuple[Place, ...]

    def cells(self) -> Iterator[Cell]:
        """Judge everything, place by place; a pod's own ports are left out, since it always reaches itself."""
        for place in self.places:
            for source in self.sources:
                if (end := source.ends.get(place.address.version)) and _asks(source, place):
                    yield self._cell(source, end, place)

    def _cell(self, source: Source, end: End, place: Place) -> Cell:
        verdicts = [self._verdict(end, way, place) for way in place.ways]
        first = next((verdict for verdict in verdicts if verdict.open), verdicts[0])
        return Cell(source, place, first.open, first)

    def _verdict(self, end: End, way: Way, place: Place) -> Verdict:
        return self.reach.verdict(end, way.end, way.port, place.protocol, version=place.address.version, seen=way.seen)


def _asks(source: Source, place: Place) -> bool:
    """Leave out a pod that is itself behind the place, and from outside all but pods and node ports."""
    if source.pod is None:
        return place.group in FROM_OUTSIDE and any(isinstance(way.end, Pod) for way in place.ways)
    return source.pod not in [way.end for way in place.ways]


def matrix(stack: Stack, site: Site | None = None, manifests: Sequence[Any] | None = None) -> Matrix:
    """Give the matrix of *stack*; at nominal addresses unless *site* says where things are.

    *manifests* stands for those that the stack renders: what would be if a policy were lost, say.
    """
    rendered = stack.manifests() if manifests is None else manifests
    reach = Reach([*rendered, dns_pod(stack.config.cluster.dns)], site_ranges(stack))
    *pods, dns = reach.pods
    where = site or nominal(stack, pods, [place_name(service) for service in services(stack)])
    placed = [replace(pod, addresses=where.pod(pod)) for pod in pods]
    there = places(stack, placed, replace(dns, addresses=where.dns), where)
    return Matrix(reach, (*(_source(pod) for pod in placed), *_outside(stack)), tuple(there))


def dns_pod(dns: DnsSpec) -> dict[str, Any]:
    """Give a pod that answers for cluster DNS: not the stack's own, and yet its policies find it by labels."""
    meta = {"name": "dns", "namespace": dns.namespace, "labels": dict(dns.selector)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [{"name": "dns"}]}}


def _source(pod: Pod) -> Source:
    return Source(pod.name, {address.version: pod for address in pod.addresses}, pod)


def _outside(stack: Stack) -> Iterator[Source]:
    ends = {version: address for version in (4, 6) if (address := internet(stack, version))}
    yield Source(OUTSIDE, ends)
