"""So many lines a minute of one kind: whoever causes them cannot flood this container's log, nor hide others in it."""

import threading
from dataclasses import dataclass, field

from tunnel.log import event

LINES_A_MINUTE = 120
"""More than people, editors and nine servers make, and few beside what a reader of the evidence takes at once."""


@dataclass
class Allowance:
    """How many lines of a *kind* may still be passed on in this minute; any thread may ask."""

    kind: str
    ends: float = 0.0
    left: int = 0
    dropped: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self, now: float) -> bool:
        """Tell whether one more may pass at *now*; count it where not, and say in the next minute how many."""
        with self.lock:
            if now >= self.ends:
                if self.dropped:
                    reason = f"more than {LINES_A_MINUTE} in a minute"
                    event(f"{self.kind}-lines-dropped", count=self.dropped, reason=reason)
                self.ends, self.left, self.dropped = now + 60, LINES_A_MINUTE, 0
            if self.left == 0:
                self.dropped += 1
                return False
            self.left -= 1
            return True
