from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.world import Authority, Echo, Frps, Gate


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Make the platform's CA."""
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def gate(tmp_path: Path, authority: Authority) -> Iterator[Gate]:
    """Start a gate for one test."""
    gate = Gate(tmp_path, authority)
    yield gate
    gate.end()


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Gate]:
    """Start one gate for the tests that only ask."""
    gate = Gate(tmp_path_factory.mktemp("door"), authority)
    yield gate
    gate.end()


@pytest.fixture
def frps(tmp_path: Path, authority: Authority, gate: Gate) -> Iterator[Frps]:
    """Start an frps for one test, which asks its gate."""
    frps = Frps(tmp_path, authority, gate)
    yield frps
    frps.process.end()


@pytest.fixture
def sshd() -> Iterator[Echo]:
    """Start a stand-in for sshd."""
    echo = Echo()
    yield echo
    echo.end()
