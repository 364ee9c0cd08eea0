"""One rig for all tests here that need a cluster."""

import os
from collections.abc import Iterator

import pytest

from tests.rig.cluster import Cluster
from tools.rig import Rig

NAME = "test"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give a running rig with nothing on it."""
    if os.geteuid() != 0:
        pytest.skip("a rig needs root: run as root to test it")
    rig = Rig(NAME)
    try:
        yield Cluster(rig.up(fresh=True), tmp_path_factory.mktemp("cluster"))
    finally:
        rig.down()
