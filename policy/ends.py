"""The two ends of a connection: pods, as manifests bring them about, and bare addresses."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from policy.field import Field
from policy.objects import Object

Address = IPv4Address | IPv6Address

TWINS: Final = 2
"""Of pods that are many, two are looked at: they show what any two of them may do to each other."""

NOWHERE: Final = "?"
"""Stands for a namespace that is not known before the deployment."""


@dataclass(frozen=True, eq=False)
class Pod:
    """One pod, itself and no other that looks alike; its name is `namespace/object`, numbered from the second on."""

    name: str
    namespace: str
    labels: Field
    ports: frozenset[tuple[str, str, int]] = frozenset()
    """Its named ports: name, protocol, number."""
    on_host: bool = False
    """It runs in the node's own network, where no policy holds it."""
    addresses: tuple[Address, ...] = ()
    """At most one of each family."""

    @cached_property
    def _by_version(self) -> dict[int, Address]:
        return {address.version: address for address in self.addresses}

    def address(self, version: int) -> Address | None:
        """Return the pod's address of IP *version*."""
        return self._by_version.get(version)


End = Pod | Address


def pods(objects: Sequence[Object]) -> list[Pod]:
    """Return the pods that *objects* are or bring about, without addresses."""
    taken: Counter[str] = Counter()
    return [pod for thing in objects for pod in _pods_of(thing, taken)]


def _pods_of(thing: Object, taken: Counter[str]) -> Iterator[Pod]:
    if thing.pod is None:
        return
    home = thing.home or NOWHERE
    name = f"{home}/{thing.name}"
    on_host = thing.pod.spec["hostNetwork"].value not in (None, False)
    for _ in range(_count(thing)):
        taken[name] += 1
        numbered = name if taken[name] == 1 else f"{name} ({taken[name]})"
        yield Pod(numbered, home, thing.pod.labels, _named_ports(thing), on_host)


def _count(thing: Object) -> int:
    """Return how many pods to look at: an object that is scaled to none still shows what its pod would be allowed."""
    spec = thing.root["spec"]
    said = {"Pod": 1, "CronJob": 1, "DaemonSet": TWINS, "Job": spec["parallelism"].value}
    return 1 if said.get(thing.kind, spec["replicas"].value) in (None, 0, 1) else TWINS


def _named_ports(thing: Object) -> frozenset[tuple[str, str, int]]:
    found = (port for container in thing.containers for port in container.field["ports"].each())
    said = ((port["name"].value, port["protocol"].value or "TCP", port["containerPort"].value) for port in found)
    return frozenset(one for one in said if isinstance(one[0], str) and type(one[2]) is int)
