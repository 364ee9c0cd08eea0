import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from components.entrance_config import LimitsSpec
from tests.services.doors import Entrance, unpack_root
from tests.services.proxies import OpenProxy, Proxy, Upstream, proxy
from tests.services.sessions import OpenEntrance
from tests.services.world import Authority, Echo, Frps, Gate, Tunnel, claim, wait_for, wanted
from tools.images.build import part_files
from tools.images.recipes import ENTRANCE_ROOT, ENVOY


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


@pytest.fixture(scope="session")
def haproxy_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the file system of the entrance's image."""
    if os.geteuid():
        pytest.skip("the image's file system is entered as root")
    return unpack_root(part_files(ENTRANCE_ROOT) / "root.tar", tmp_path_factory.mktemp("entrance"))


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    """Give a server behind the proxy."""
    made = Upstream()
    yield made
    made.end()


@pytest.fixture
def proxy_with(upstream: Upstream, tmp_path: Path) -> Iterator[OpenProxy]:
    """Start a proxy with limits."""
    with ExitStack() as stack:

        def begin(address: str = "127.0.0.1", **limits: int) -> Proxy:
            envoy = part_files(ENVOY) / "envoy"
            return stack.enter_context(proxy(envoy, tmp_path / "it", upstream.port, None, address, **limits))

        yield begin


@pytest.fixture
def entrance_to(
    haproxy_root: Path, frps: Frps, authority: Authority, sshd: Echo, tmp_path: Path
) -> Iterator[OpenEntrance]:
    """Start entrances before an frps through which the unit trainer is reached."""
    with ExitStack() as stack:
        (tmp_path / "unit" / "mount").mkdir(parents=True)
        tunnel = Tunnel(tmp_path / "unit", sshd)
        stack.callback(tunnel.process.end)
        tunnel.mount(wanted(frps.server, authority, claim()))
        wait_for(lambda: frps.greeting(claim().host).startswith(b"SSH-2.0-"), "the unit is reached")

        def begin(drain: int = 60, **limits: int) -> Entrance:
            made = Entrance(haproxy_root, frps, LimitsSpec.model_validate(limits), drain)
            stack.callback(made.process.end, signal.SIGKILL)
            return made

        yield begin
