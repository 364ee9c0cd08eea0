"""What each unit may send and take: said by the gate, kept by the pinned frps, whatever the unit's client says."""

import socket
import threading
import time
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from gate.bandwidth import read_bandwidth
from gate.claim import RefusedError
from gate.keys import KeyFileError
from gate.rules import judge
from typing_extensions import override

from tests.services.test_frp import StartTunnel, session, tunnels, wait_until_reached
from tests.services.test_gate import LOGIN, allows
from tests.services.test_rules import POLICY, login, new_proxy, new_user_conn
from tests.services.world import Authority, Echo, Frps, Gate, claim, wait_for, wanted

__all__ = ["tunnels"]

LIMITED = replace(POLICY, bandwidth="7MB")
MB = 2**20


def test_an_announcement_gets_the_limit_and_nothing_else_of_it_changes() -> None:
    """The server keeps it; logins and sessions are as without one, and so are announcements where there is none."""
    request_ = new_proxy()
    limit = {"bandwidth_limit": "7MB", "bandwidth_limit_mode": "server"}

    assert judge(request_, LIMITED).content == {**request_["content"], **limit}
    assert judge(request_, POLICY).content is None
    assert judge(new_user_conn(), LIMITED).content is None
    assert set(judge(login(), LIMITED).content or {}) == {*login()["content"], "run_id"}


@pytest.mark.parametrize("policy", [POLICY, LIMITED])
@pytest.mark.parametrize("more", [{"bandwidth_limit": "99999MB"}, {"bandwidth_limit_mode": "client"}])
def test_a_client_says_no_limit_of_its_own(policy: Any, more: dict[str, str]) -> None:
    """Neither a higher one nor one that the client itself would keep."""
    with pytest.raises(RefusedError, match="not allowed here: bandwidth_limit"):
        judge(new_proxy(**more), policy)


@pytest.mark.parametrize(
    ("said", "limit"), [("none", None), ("none\n", None), ("1MB", "1MB"), ("99999MB\n", "99999MB")]
)
def test_the_file_says_a_limit_or_none(tmp_path: Path, said: str, limit: str | None) -> None:
    """In frp's words, with or without the end of the line."""
    (tmp_path / "bandwidth").write_text(said)

    assert read_bandwidth(tmp_path / "bandwidth") == limit
    assert read_bandwidth(None) is None


@pytest.mark.parametrize("said", ["", "0MB", "1", "1GB", "-1MB", "1MB 2MB", "1.5MB", "100000MB", "None", "\udc80"])
def test_an_odd_file_is_no_limit_and_no_leave(tmp_path: Path, said: str) -> None:
    """What frp would take for no limit at all is not passed on."""
    (tmp_path / "bandwidth").write_bytes(said.encode("utf-8", "surrogateescape"))
    with pytest.raises(KeyFileError, match="bandwidth: "):
        read_bandwidth(tmp_path / "bandwidth")


def test_without_its_file_the_gate_allows_nothing(gate: Gate) -> None:
    """It is not ready and lets nobody in, until it knows again how much each unit may have."""
    (gate.folder / "bandwidth").unlink()
    assert not gate.is_ready()
    assert gate.ask("Login", LOGIN)[0] == HTTPStatus.SERVICE_UNAVAILABLE
    gate.set_bandwidth("none")
    assert allows(gate)


def test_frps_keeps_the_limit(frps: Frps, gate: Gate, authority: Authority, tunnels: StartTunnel) -> None:
    """Two MB there and back at one MB a second take three seconds at least, since one second's worth is free.

    The client says nothing of a limit, and its own configuration has none.
    """
    gate.set_bandwidth("1MB")
    tunnels(wanted(frps.server, authority, claim()))
    wait_until_reached(frps)
    with session(frps) as connection:
        began = time.monotonic()
        assert there_and_back(connection, 2 * MB) == 2 * MB
        assert time.monotonic() - began > 2.9


def there_and_back(connection: socket.socket, size: int) -> int:
    """Send *size* bytes and read as many; give how many came."""
    sender = threading.Thread(target=connection.sendall, args=(bytes(size),))
    sender.start()
    connection.settimeout(60)
    came = 0
    while came < size and (data := connection.recv(65536)):
        came += len(data)
    sender.join()
    return came


class Talker(Echo):
    """Stands in for an sshd that asks from time to time whether its client is there."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[socket.socket] = []

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        self.sessions.append(request)
        super().process_request(request, client_address)


def test_a_client_that_vanished_is_seen_when_the_unit_speaks(
    frps: Frps,
    gate: Gate,
    authority: Authority,
    tunnels: StartTunnel,
) -> None:
    """With a limit frps passes the end of a client on no sooner; sshd asks every 30 seconds, and the session ends."""
    gate.set_bandwidth("1MB")
    talker = Talker()
    tunnels(wanted(frps.server, authority, claim()), talker)
    wait_until_reached(frps)
    session(frps).close()
    (*_, last) = talker.sessions
    wait_for(lambda: not speaks(last), "the unit's session to end")


def speaks(session: socket.socket) -> bool:
    """Tell whether the unit can still say something."""
    try:
        session.sendall(b"are you there?")
    except OSError:
        return False
    return True
