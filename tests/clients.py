"""What users have on their machines, and tests use in their place."""

import os

from tools.toolchain import ensure_debian

PACKAGES = ("curl", "netcat-openbsd", "openssh-client")


def ensure_clients() -> None:
    """Install what is missing; without root the tests that need it say what they lack."""
    if os.geteuid() == 0:
        ensure_debian(*PACKAGES)
