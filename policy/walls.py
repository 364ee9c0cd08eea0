"""Find the pods that no NetworkPolicy selects."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from policy.field import Field, Finding
from policy.objects import Object, World
from policy.selection import breadth, selects

Direction = Literal["Egress", "Ingress"]


def unwalled(world: World, direction: Direction) -> Iterator[tuple[Object, Finding]]:
    """Yield the pods of *world* that no policy of their namespace surely selects for *direction*."""
    selectors = _selectors(world.policies, direction)
    for thing in world.objects:
        if thing.pod is not None and not _walled(thing, thing.pod.labels, selectors):
            where = thing.home or "a namespace that is not known"
            yield thing, Finding(thing.pod.labels.path, f"pod: no NetworkPolicy for {direction} selects it in {where}")


def _walled(thing: Object, labels: Field, selectors: Mapping[str, Sequence[Field]]) -> bool:
    return any(selects(selector, labels) for selector in selectors.get(thing.home or "", ()))


def _selectors(policies: Sequence[Object], direction: Direction) -> dict[str, list[Field]]:
    found: dict[str, list[Field]] = defaultdict(list)
    for policy in policies:
        if policy.home and _judges(policy.root["spec"], direction):
            found[policy.home].append(policy.root["spec"]["podSelector"])
    return {namespace: sorted(selectors, key=breadth) for namespace, selectors in found.items()}


def _judges(spec: Field, direction: Direction) -> bool:
    """Say whether a policy is for *direction*: without types, for ingress, and for egress when it has rules for it."""
    if spec["policyTypes"].value is None:
        return direction == "Ingress" or (isinstance(spec["egress"].value, list) and bool(spec["egress"].value))
    return any(item.value == direction for item in spec["policyTypes"].each())
