"""When a server is tried again."""

import random
from dataclasses import dataclass

FIRST_WAIT, LONGEST_WAIT = 0.5, 10.0
"""Seconds before a server is tried again: at first, and at most."""


@dataclass
class Retry:
    """When a server may be tried again: exponential, with jitter, so that units do not return in step."""

    failures: int = 0
    due: float = 0.0

    def failed(self, now: float) -> float:
        """Count one more failure and return the seconds to wait."""
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(self.failures, 10)) * random.uniform(0.5, 1.0)  # noqa: S311
        self.failures += 1
        self.due = now + wait
        return wait
