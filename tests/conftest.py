"""Fixtures that every test may use."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import settings
from typing_extensions import override

settings.register_profile("ours", deadline=None)  # a busy machine is no failure of what is tested
settings.load_profile("ours")

Golden = Callable[[str, object], None]
GOLDEN = Path(__file__).parent / "golden"
UPDATE = "UPDATE_GOLDEN"
"""Environment variable: 1 writes the golden files anew (`make golden`); the diff is for review."""


class _Plain(yaml.SafeDumper):
    """Write shared values out each time: an anchor would hide what changed."""

    @override
    def ignore_aliases(self, data: object) -> bool:
        return True


@pytest.fixture
def golden() -> Golden:
    """Compare plain data with a file under tests/golden."""

    def compare(name: str, value: object) -> None:
        path = GOLDEN / name
        text = yaml.dump(value, Dumper=_Plain, sort_keys=True, width=120)
        if os.environ.get(UPDATE) == "1":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        expected = path.read_text() if path.exists() else ""
        assert text == expected, f"{path} differs; `make golden` rewrites it, read the diff"

    return compare
