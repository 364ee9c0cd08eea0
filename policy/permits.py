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
    def names_ports(self) -> bool:
        """Say whether the rule surely permits single ports and no others."""
        ports = list(self.field["ports"].each())
        return bool(ports) and all(_is_one(port) for port in ports)


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


def _is_one(port: Field) -> bool:
    """Without a port an entry permits all, with an endPort a range."""
    return type(port["port"].value) in (int, str) and port["endPort"].value is None
