"""While something takes its time `up` tells how far it is: what is news at once, and what is not every so often."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pulumi

LONGEST_TEXT = 240
"""Characters of a line; a kubelet's words of an image are longer, and told whole in the end."""

BEAT_SECONDS = 20.0
"""The longest silence about what is waited for."""

REST = 9
"""For each second that a look takes, so many without one: the cluster has other work."""

LONGEST_REST = 10.0
"""Seconds: a cluster that is slow to answer once is asked again soon."""


@dataclass
class Lines:
    """What was told, of whom, and when it may be told again."""

    clock: Callable[[], float]
    said: dict[tuple[str, str], float] = field(default_factory=dict)

    def tell(self, whom: str, text: str, resource: pulumi.Resource) -> None:
        """Say *text* of *whom*, for example of ``unit trainer.lab-a``, where that is news or its beat has come."""
        shown = text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
        if self.clock() >= self.said.get((whom, shown), 0.0):
            self.said[whom, shown] = self.clock() + BEAT_SECONDS
            pulumi.log.info(f"{whom}: {shown}", resource)


def rest(least: float, took: float) -> float:
    """Give the seconds until the next look at the cluster, after one that *took* so many."""
    return min(max(least, REST * took), LONGEST_REST)
