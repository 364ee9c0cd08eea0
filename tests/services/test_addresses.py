"""Name servers that are away: the tunnel client goes on with the address that it found before."""

import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tunnel.addresses import AGAIN_SECONDS, Addresses, address_of
from typing_extensions import override

from tests.services.world import ROOT, Authority, Echo, Frps, Process, Tunnel, claim, mount, wait_for, wanted
from tools.toolchain import ensure

NAME = "frps-0.gpu-runtime.svc"
HOST = claim().host
HOSTS_SECONDS = 6.0
"""Go believes a file of names for five: before, nothing would show whether a name is looked up."""

BANNER = b"SSH-2.0-echo\r\n"


def answers(*addresses: str) -> Any:
    """Stand for a name server that gives *addresses*, or for none."""

    def found(*_: object, **__: object) -> list[tuple[Any, ...]]:
        if not addresses:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        family = [socket.AF_INET6 if ":" in one else socket.AF_INET for one in addresses]
        return [(family[i], socket.SOCK_STREAM, 6, "", (one, 0)) for i, one in enumerate(addresses)]

    return found


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["10.43.0.9"], "10.43.0.9"),
        (["fd00::9", "10.43.0.9"], "fd00::9"),
        (["203.0.113.7", "203.0.113.8"], NAME),
        ([], None),
    ],
    ids=["one", "one of each family", "several", "none"],
)
def test_one_address_is_kept(monkeypatch: pytest.MonkeyPatch, given: list[str], found: str | None) -> None:
    """A name of one address becomes it; a name of several stays a name, so that frpc tries one after the other."""
    monkeypatch.setattr(socket, "getaddrinfo", answers(*given))
    assert address_of(NAME) == found


def test_the_last_answer_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name server the address that was found stays; a new one is taken once there is one again."""
    addresses, now = Addresses(), 0.0
    for given, stands in ((("10.43.0.9",), "10.43.0.9"), ((), "10.43.0.9"), (("10.43.0.10",), "10.43.0.10")):
        monkeypatch.setattr(socket, "getaddrinfo", answers(*given))
        addresses.due.clear()
        addresses.look(NAME, now := now + AGAIN_SECONDS)
        wait_for(lambda: NAME not in addresses.busy, "the look-up")
        assert addresses.of(NAME) == stands


def test_a_name_that_was_never_found_is_left_to_frpc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own complaint tells more than ours could; an address is nobody's to look up."""
    monkeypatch.setattr(socket, "getaddrinfo", answers())
    addresses = Addresses()
    assert addresses.of(NAME) is None
    addresses.look(NAME, 0.0)
    addresses.look("2001:db8::7", 0.0)
    assert wait_for(lambda: addresses.of(NAME), "the look-up") == NAME
    assert addresses.of("2001:db8::7") == "2001:db8::7"


class Named(Tunnel):
    """A tunnel client that knows names from a file of its own."""

    @override
    def __post_init__(self) -> None:
        (self.folder / "hosts").write_text(f"127.0.0.1 {NAME}\n")
        places = ["--dir", f"{self.folder}/mount", "--state", f"{self.folder}/state"]
        program = ["--frpc", str(ensure("frpc")["frpc"]), "--local-port", str(self.sshd.port)]
        env = {"PYTHONPATH": str(ROOT / "services"), "PYTHONDONTWRITEBYTECODE": "1"}
        begin = f'mount --bind {self.folder}/hosts /etc/hosts && exec "$@"'
        unshare = [shutil.which("unshare") or "unshare", "--mount", "sh", "-c", begin, "sh"]
        argv = [*unshare, sys.executable, "-P", "-s", "-m", "tunnel", *places, *program]
        self.process = Process(argv, self.folder / "tunnel.log", {**env, "PATH": os.environ["PATH"]})

    def knows(self, line: str) -> None:
        """Know this and no other name from now on."""
        (self.folder / "hosts").write_text(line)  # the same file: it is mounted


@pytest.fixture
def named(frps: Frps, authority: Authority, sshd: Echo, tmp_path: Path) -> Iterator[Named]:
    """Give a unit that is announced at an frps which it knows by name."""
    if os.geteuid():
        pytest.skip("a file of names is mounted as root")
    folder = tmp_path / "named"
    (folder / "mount").mkdir(parents=True)
    tunnel = Named(folder, sshd)
    try:
        mount(folder / "mount", wanted(replace(frps.server, address=NAME), authority, claim()))
        wait_for(lambda: frps.greeting(HOST) == BANNER, "the unit is reached")
        yield tunnel
    finally:
        tunnel.process.end()


def test_logins_go_on_without_a_name_server(named: Named, frps: Frps) -> None:
    """One after the other, each over a connection of its own, and also after the server was away."""
    named.knows("")
    time.sleep(HOSTS_SECONDS)
    for _ in range(5):
        assert wait_for(lambda: frps.greeting(HOST), "a login") == BANNER
    frps.process.end()
    frps.start()
    wait_for(lambda: frps.greeting(HOST) == BANNER, "a login after the server's return", 40)


def test_a_server_that_moved_is_found(named: Named, frps: Frps) -> None:
    """Its name has another address, and it is not reached at the one before: the client goes to the new one."""
    frps.process.end()
    named.knows(f"127.0.0.2 {NAME}\n")
    frps.start(bind="127.0.0.2")
    wait_for(lambda: frps.greeting(HOST) == BANNER, "the unit at the server's new address", 40)
