"""What of requirements.lock goes into an image."""

from pathlib import Path

import pytest

from tools.images.wheels import LOCK, pinned
from tools.shell import ToolError


def test_a_package_comes_with_its_version_and_hashes() -> None:
    """What pip is given names one version and at least one hash, and no other package."""
    said = pinned("prometheus-client")
    assert said.startswith("prometheus-client==")
    assert "--hash=sha256:" in said
    assert said.count("==") == 1
    assert said in LOCK.read_text()


def test_what_is_not_locked_is_refused(tmp_path: Path) -> None:
    """A name that the lock does not have is no name for the package index to answer."""
    (tmp_path / "requirements.lock").write_text("one==1 \\\n    --hash=sha256:00\n")
    with pytest.raises(ToolError, match="pins no two"):
        pinned("one", "two", lock=tmp_path / "requirements.lock")
