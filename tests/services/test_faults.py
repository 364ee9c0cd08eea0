"""What dies in the middle: during a session, and between a login's CONNECT and sshd's greeting."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from tests.services.world import Authority, Echo, Frps, Gate, Tunnel, claim, ending, kill, wait_for, wanted

BANNER = b"SSH-2.0-echo\r\n"
HOST = claim().host

BOUND_SECONDS = 60.0
"""Far above what any of it takes, and an end: who hangs is ended by this."""


class Holding(Echo):
    """Stands in for an sshd that can be held between a connection and its greeting, and that can die."""

    def __init__(self, port: int = 0) -> None:
        self.held, self.over = threading.Event(), threading.Event()
        self.waiting: list[Any] = []
        super().__init__(port, BANNER)

    @override
    def finish_request(self, request: Any, client_address: Any) -> None:
        if not self.held.is_set():
            super().finish_request(request, client_address)
            return
        self.waiting.append(request)
        self.over.wait()

    def die(self) -> None:
        """Close everything, as the kernel does for a process that was killed."""
        self.end()
        self.over.set()


class World:
    """A unit on two servers."""

    def __init__(self, folder: Path, first: Frps, authority: Authority, gate: Gate) -> None:
        self.first, self.second = first, Frps(folder, authority, gate, "frps-1")
        self.sshd = Holding()
        self.folder = folder / "unit"
        (self.folder / "mount").mkdir(parents=True)
        self.tunnel = Tunnel(self.folder, self.sshd)
        both = replace(wanted(first.server, authority, claim()), servers=(first.server, self.second.server))
        self.tunnel.mount(both)

    def end(self) -> None:
        """End what this began."""
        with ending(self.sshd.die, self.second.process.end, self.tunnel.process.end):
            pass

    def reached(self, *servers: Frps) -> None:
        """Wait until the unit answers through each of *servers*, by default both."""
        for server in servers or (self.first, self.second):
            wait_for(partial(_greets, server), f"{server.name} leads to the unit", BOUND_SECONDS)

    def frpc(self, server: Frps) -> int:
        """Give the process that announces the unit at *server*."""
        of = f"/state/{server.name}/"
        found = (pid for pid in self.tunnel.children() if of in Path(f"/proc/{pid}/cmdline").read_text())
        return next(found)

    def in_the_middle(self) -> socket.socket:
        """Give a login through the first server that has its CONNECT answered and waits for sshd's greeting."""
        self.sshd.held.set()
        status, connection = self.first.open(HOST)
        assert b" 200 " in status
        wait_for(lambda: self.sshd.waiting, "sshd to be asked")
        return connection


def _greets(server: Frps) -> bool:
    return server.greeting(HOST) == BANNER


@pytest.fixture
def world(tmp_path: Path, frps: Frps, authority: Authority, gate: Gate) -> Iterator[World]:
    """Give a unit that is reached through both servers."""
    made = World(tmp_path, frps, authority, gate)
    try:
        made.reached()
        yield made
    finally:
        made.end()


def ended(connection: socket.socket) -> bool:
    """Tell whether the other side ends a connection, without a word, before the bound."""
    connection.settimeout(BOUND_SECONDS)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def session(frps: Frps) -> socket.socket:
    """Open a session and read the banner."""
    _, connection = frps.open(HOST)
    connection.settimeout(BOUND_SECONDS)
    assert connection.recv(len(BANNER), socket.MSG_WAITALL) == BANNER
    return connection


def alive(connection: socket.socket) -> bool:
    """Tell whether what is sent comes back."""
    connection.sendall(b"ping")
    return connection.recv(4, socket.MSG_WAITALL) == b"ping"


def test_one_dead_frpc_takes_its_own_sessions_alone(world: World) -> None:
    """A unit's frpc of one server dies: sessions and logins through the other go on, and soon it is back."""
    with session(world.first) as gone, session(world.second) as other:
        dead = world.frpc(world.first)
        kill(dead)
        assert world.second.greeting(HOST) == BANNER
        assert alive(other)
        assert ended(gone)
        world.reached()
        assert world.frpc(world.first) != dead
        assert alive(other)


def _frpc_dies(world: World) -> None:
    kill(world.frpc(world.first))


def _sshd_dies(world: World) -> None:
    world.sshd.die()


def _server_dies(world: World) -> None:
    world.first.process.end(signal.SIGKILL)


DEATHS = {"frpc": _frpc_dies, "sshd": _sshd_dies, "frps": _server_dies}


@pytest.mark.parametrize("die", DEATHS.values(), ids=DEATHS)
def test_a_login_in_the_middle_ends_and_the_next_one_works(world: World, die: Callable[[World], None]) -> None:
    """Whatever dies between CONNECT and the greeting, the client is told by the end of its connection.

    It never waits for nothing. The next login works: at once through what lives, and through the rest when it is back.
    """
    with world.in_the_middle() as login:
        die(world)
        assert ended(login)
    world.sshd.held.clear()
    if die is _sshd_dies:
        world.sshd = Holding(world.sshd.port)
    if die is _server_dies:
        assert world.second.greeting(HOST) == BANNER
        world.first.start()
    world.reached()


def test_a_login_to_an_frpc_that_hangs_ends_with_it(world: World) -> None:
    """Stopped, it takes a login that it will never serve; once it is killed, the client's connection ends."""
    frozen = world.frpc(world.first)
    os.kill(frozen, signal.SIGSTOP)
    _, login = world.first.open(HOST)
    with login:
        kill(frozen)
        assert ended(login)
    world.reached()
