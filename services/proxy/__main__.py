"""``python3 -m proxy``: before Envoy is ended, let what it is doing come to its end. The kubelet waits for it."""

import argparse
import sys
import time
from pathlib import Path

from proxy.admin import Admin, AdminError

LOOK_SECONDS = 0.5
"""Between two looks at how many requests there are."""

PREFIX = "proxy"
"""Envoy's statistics of the listener that clients reach begin with it."""


def arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line; a mistake ends the program with a usage message."""
    parser = argparse.ArgumentParser(prog="proxy", description="Waits until Envoy has no request in hand.")
    parser.add_argument("--admin", type=Path, required=True, help="socket of Envoy's administration")
    parser.add_argument("--grace", type=float, default=10.0, help="seconds to go on whatever is in hand")
    parser.add_argument("--seconds", type=float, required=True, help="the most to wait, the grace included")
    return parser.parse_args(argv)


def drain(admin: Admin, grace: float, seconds: float) -> int:
    """Send clients elsewhere and wait; give the number of requests that are still in hand."""
    begun = time.monotonic()
    admin.fail_health()
    time.sleep(min(grace, seconds))
    while (left := admin.requests(PREFIX)) and time.monotonic() - begun < seconds:
        time.sleep(LOOK_SECONDS)
    return left


def main(argv: list[str]) -> int:
    """Drain; 0 where nothing was cut, 1 where time ran out or Envoy does not answer, with one sentence."""
    options = arguments(argv)
    try:
        left = drain(Admin(options.admin), options.grace, options.seconds)
    except (AdminError, OSError) as error:
        print(f"proxy: {error}", file=sys.stderr)
        return 1
    if left:
        print(f"proxy: {left} requests are cut: they took longer than {options.seconds:.0f} s", file=sys.stderr)
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
