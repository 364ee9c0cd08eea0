"""Tools of the repository. They start on a bare Python, so the first thing here is to say when it is too old."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  - an older Python is what this line is for
    raise SystemExit(
        "Python %d.%d is too old: gpu-runtime needs Python 3.11 or newer (name one with `make PYTHON=python3.11 ...`)."  # noqa: UP031  - must parse on any Python 3
        % sys.version_info[:2]
    )
