"""``python3 -m probe``: try what a tenant's pod may reach and what it may not."""

import sys

from probe.window import begin

if __name__ == "__main__":
    measured = begin(sys.argv)  # before the rest is loaded: a start-up window is a matter of milliseconds

    from probe.run import main

    sys.exit(main(sys.argv[1:], measured))
