"""Read the rules of NetworkPolicies as the API server does."""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from policy.field import Field
from policy.objects import Object, World

Direction = Literal["egress", "ingress"]
_PEERS: Final = {"egress": "to", "ingress": "from"}


class Rule(NamedTuple):
    """One rule of a policy."""

    policy: Object
    direction: Direction
    field: Field

    @property
    def who(self) -> str:
        """Name the rule as a message does."""
        return f"{self.direction} rule"

    @property
    def peers(self) -> Field:
        """Return the list of those whom the rule permits."""
        return self.field[_PEERS[self.direction]]

    @property
    def ports(self) -> frozenset[int | str] | None:
        """Return the single ports that the rule permits, by number or name; None where it may permit more."""
        entries = list(self.field["ports"].each())
        single = all(_is_port(item["port"].value) and item["endPort"].value is None for item in entries)
        return frozenset(item["port"].value for item in entries) if entries and single else None


def _is_port(value: object) -> bool:
    """Say whether it is a port's number or name; 0 and an empty name are none, whatever they come to mean."""
    return (type(value) is int and value > 0) or (isinstance(value, str) and bool(value))


def rules(world: World) -> Iterator[Rule]:
    """Yield every rule of every policy, also of a direction that the policy's types leave out."""
    for policy in world.policies:
        yield from rules_of(policy)


def rules_of(policy: Object) -> Iterator[Rule]:
    """Yield the rules of *policy*."""
    directions: tuple[Direction, ...] = ("ingress", "egress")
    for direction in directions:
        for field in policy.root["spec"][direction].each():
            yield Rule(policy, direction, field)
