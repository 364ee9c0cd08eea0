"""One JSON object per line on standard output, for people and for log collectors."""

import json
import sys
from datetime import UTC, datetime


def event(name: str, **fields: object) -> None:
    """Write one line: the time (UTC), the event's *name* and its *fields*, none of which may be a secret."""
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": name, **fields}
    sys.stdout.write(json.dumps(line, default=str) + "\n")
    sys.stdout.flush()
