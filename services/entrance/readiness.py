"""When a tunnel server that has just started may be sent logins: a pure judgement over what it and its peers hold."""

from collections.abc import Iterable
from dataclasses import dataclass, field

Hosts = frozenset[str]

QUIET_SECONDS = 30.0
"""Since the last host came that a peer holds: who has not come by then is not waited for."""

LONGEST_SECONDS = 120.0
"""Since the start, whatever is missing: a mounted token reaches the last unit within some 90 s."""

UNKNOWN_SECONDS = 10.0
"""For peers that cannot be asked: longer than walls take to open for a new pod, and no reason to stay away."""


@dataclass
class Readiness:
    """Says when; once it has said yes it stays, whatever tenants do: only another life of frps begins anew."""

    began: float
    ready: bool = False
    missing: int = 0
    come: Hosts = frozenset()
    """Hosts of peers that were ever here: one that leaves and returns is not new."""
    newest: float = field(init=False)

    def __post_init__(self) -> None:
        self.newest = self.began

    def judge(self, now: float, own: Hosts, peers: Iterable[Hosts | None]) -> bool:
        """Judge by the hosts that this server holds and those of each ready peer; None is a peer nobody could ask."""
        if self.ready:
            return True
        said = list(peers)
        wanted = frozenset[str]().union(*(hosts for hosts in said if hosts is not None))
        self._count(now, wanted & own, len(wanted - own))
        self.ready = self._complete(now, all_known=None not in said) or self._long_enough(now)
        return self.ready

    def _count(self, now: float, held: Hosts, missing: int) -> None:
        if held - self.come:
            self.newest = now
        self.come, self.missing = self.come | held, missing

    def _complete(self, now: float, *, all_known: bool) -> bool:
        return not self.missing and (all_known or now - self.began >= UNKNOWN_SECONDS)

    def _long_enough(self, now: float) -> bool:
        """Wait longer where not one unit has come: that is no tenant's doing, and every login would be refused."""
        return now - self.began >= LONGEST_SECONDS or (bool(self.come) and now - self.newest >= QUIET_SECONDS)
