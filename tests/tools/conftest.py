from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.toolchain import go, release


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_RUNTIME_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def fresh_answers() -> Iterator[None]:
    """What a run remembers about the machine is forgotten before and after."""
    for remembered in (go.version, release._answers):
        remembered.cache_clear()
    yield
    for remembered in (go.version, release._answers):
        remembered.cache_clear()
