"""The gate and the tunnel with the pinned frps and frpc, each as it runs in the cluster."""

import json
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tunnel.frpc_config import Admin, frpc_config
from tunnel.wanted import Access, Server, Wanted

from tests.services.world import (
    GATE_KEY,
    OTHER_KEY,
    TOKEN,
    Authority,
    Echo,
    Frps,
    Gate,
    Process,
    Tunnel,
    claim,
    ending,
    free_port,
    holds,
    kill,
    metas,
    wait_for,
    wanted,
)
from tools.toolchain import ensure

BANNER = b"SSH-2.0-echo\r\n"
HOST = claim().host

StartTunnel = Callable[..., Tunnel]


@pytest.fixture
def tunnels(tmp_path: Path, sshd: Echo) -> Iterator[StartTunnel]:
    """Start supervisors that end with the test."""
    with ExitStack() as stack:

        def begin(said: Wanted, behind: Echo = sshd) -> Tunnel:
            folder = tmp_path / f"unit-{len(list(tmp_path.glob('unit-*')))}"
            (folder / "mount").mkdir(parents=True)
            tunnel = Tunnel(folder, behind)
            stack.callback(tunnel.process.end)
            tunnel.mount(said)
            return tunnel

        yield begin


@pytest.fixture
def trainer(frps: Frps, authority: Authority, tunnels: StartTunnel) -> Tunnel:
    """Start a unit and wait until it is reached."""
    tunnel = tunnels(wanted(frps.server, authority, claim()))
    wait_until_reached(frps)
    return tunnel


def wait_until_reached(frps: Frps, host: str = HOST) -> None:
    """Wait until *host* answers through *frps*."""
    wait_for(lambda: frps.greeting(host) == BANNER, f"{host} answers through the tunnel")


def alive(session: socket.socket) -> bool:
    """Tell whether what is sent into *session* comes back."""
    session.settimeout(5)
    session.sendall(b"ping")
    return session.recv(100) == b"ping"


def session(frps: Frps, host: str = HOST) -> socket.socket:
    """Open a session and read the banner."""
    status, connection = frps.open(host)
    assert b" 200 " in status
    connection.settimeout(5)
    assert connection.recv(len(BANNER), socket.MSG_WAITALL) == BANNER
    return connection


def test_a_unit_is_reached_by_its_name(frps: Frps, gate: Gate, trainer: Tunnel) -> None:
    """CONNECT to the unit's host reaches its sshd; the gate logs unit and client; an unknown host is 404."""
    with session(frps) as connection:
        assert alive(connection)
        client = "{}:{}".format(*connection.getsockname())
    last = gate.process.events("session")[-1]
    assert (last["unit"], last["client"]) == ("trainer", client)
    assert b" 404 " in frps.status("nobody.lab-a.ssh.example.test")
    assert len(trainer.process.events("started")) == 1


def test_no_secret_is_printed(frps: Frps, gate: Gate, trainer: Tunnel) -> None:
    """Token and capability are in nobody's log, and frpc's files are private."""
    secrets = (TOKEN, metas(claim())["capability"], GATE_KEY.hex())
    for text in (trainer.process.text, gate.process.text, frps.process.text):
        assert not any(secret in text for secret in secrets)
    files = [path for path in (trainer.folder / "state").rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"frpc.json", "token", "ca.crt"}
    assert {path.stat().st_mode & 0o077 for path in files} == {0}


def test_the_status_api_is_closed_to_the_users_container(trainer: Tunnel) -> None:
    """Who shares loopback with frpc gets nothing from its API without the password."""
    config = json.loads((trainer.folder / "state" / "frps-0" / "frpc.json").read_text())
    for path in ("/api/status", "/api/config", "/api/reload", "/static/"):
        with socket.create_connection(("127.0.0.1", config["webServer"]["port"]), 5) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert b" 401 " in connection.recv(4096).split(b"\r\n")[0]


Change = Callable[[dict[str, Any]], None]


def proxy(**changes: Any) -> Change:
    """Return a change of the only proxy."""
    return lambda config: config["proxies"][0].update(changes)


def said(**changes: Any) -> Change:
    """Return a change of the client's metadata."""
    return lambda config: config["metadatas"].update(changes)


def top(**changes: Any) -> Change:
    """Return a change of the configuration itself."""
    return lambda config: config.update(changes)


def pool(count: int) -> Change:
    """Return a change of the connections that the client offers in advance."""
    return lambda config: config["transport"].update(poolCount=count)


def kind(name: str, **more: Any) -> Change:
    """Make the proxy one of another type."""

    def change(config: dict[str, Any]) -> None:
        old = config["proxies"][0]
        config["proxies"] = [{"name": old["name"], "type": name, "localIP": "127.0.0.1", "localPort": 9, **more}]

    return change


OTHER = claim("other")

ATTEMPTS: dict[str, tuple[Change, str]] = {
    "another's capability": (said(capability=metas(OTHER)["capability"]), "capability"),
    "another's metadata but not capability": (said(unit="other", host=OTHER.host), "capability"),
    "a unit that is gone": (said(**metas(claim("gone"))), "no unit 'gone' in 'lab-a'"),
    "a namespace that is nobody's": (said(**metas(claim(namespace="lab-z"))), "no namespace 'lab-z' of stack 'dev'"),
    "another stack's unit": (said(**metas(claim(owner="prod"))), "not admitted"),
    "capability of another key": (said(**metas(claim(), OTHER_KEY)), "capability"),
    "no metadata": (top(metadatas={}), "no metadata"),
    "more metadata": (said(role="admin"), "exactly"),
    "user prefix": (top(user="other"), "not allowed here: user"),
    "client id": (top(clientID="other"), "not allowed here: client_id"),
    "negative pool": (pool(-100), "pool_count"),
    "another's host": (proxy(customDomains=[OTHER.host]), "may announce"),
    "own and another's host": (proxy(customDomains=[HOST, OTHER.host]), "may announce"),
    "every host": (proxy(customDomains=["*"]), "may announce"),
    "upper case": (proxy(customDomains=[HOST.upper()]), "may announce"),
    "another's name": (proxy(name=OTHER.host), "proxy is named"),
    "group": (proxy(loadBalancer={"group": "g", "groupKey": "k"}), "not allowed here: group"),
    "route by user": (proxy(routeByHTTPUser="root"), "not allowed here: route_by_http_user"),
    "password": (proxy(httpUser="root", httpPassword="x"), "not allowed here: http_pwd"),
    "encryption": (proxy(transport={"useEncryption": True}), "not allowed here: use_encryption"),
    "bandwidth": (proxy(transport={"bandwidthLimit": "99999MB"}), "not allowed here: bandwidth_limit"),
    "bandwidth, by the server": (
        proxy(transport={"bandwidthLimit": "99999MB", "bandwidthLimitMode": "server"}),
        "not allowed here: bandwidth_limit, bandwidth_limit_mode",
    ),
    "tcp": (kind("tcp", remotePort=1), "not allowed here: remote_port"),
    "tcp on any port": (kind("tcp"), "only a tcpmux"),
    "udp": (kind("udp"), "only a tcpmux"),
    "http": (kind("http", customDomains=[HOST]), "only a tcpmux"),
    "stcp": (kind("stcp", secretKey="x"), "not allowed here: sk"),
    "xtcp": (kind("xtcp", secretKey="x"), "not allowed here: sk"),
}


def client(folder: Path, frps: Frps, authority: Authority, behind: int, change: Change) -> Process:
    """Start an frpc whose owner changed its configuration."""
    folder.mkdir()
    tunnel = wanted(frps.server, authority, claim())
    (folder / "token").write_text(TOKEN)
    (folder / "ca.crt").write_text(tunnel.access.ca)
    config = json.loads(frpc_config(tunnel, frps.server, Admin(free_port(), "p"), folder, behind))
    change(config)
    (folder / "frpc.json").write_text(json.dumps(config))
    return Process([str(ensure("frpc")["frpc"]), "-c", str(folder / "frpc.json")], folder / "frpc.log")


def test_nothing_but_ones_own_is_announced(tmp_path: Path, frps: Frps, authority: Authority, sshd: Echo) -> None:
    """Each attempt of a client with a valid token to get more than its own is refused by the gate, in its words.

    The same client without a change gets in, so what is refused is the attempt; frps outlives them all.
    """
    with ExitStack() as stack:
        made: dict[str, Process] = {}
        for number, (name, (change, _)) in enumerate(ATTEMPTS.items()):
            made[name] = client(tmp_path / f"client-{number}", frps, authority, sshd.port, change)
            stack.callback(made[name].end, signal.SIGKILL)
        for name, (_, reason) in ATTEMPTS.items():
            wait_for(partial(made[name].says, reason), f"{name}: refused for {reason!r}")
            assert "start proxy success" not in made[name].text, name
        assert b" 404 " in frps.status(OTHER.host)
        honest = client(tmp_path / "honest", frps, authority, sshd.port, lambda _: None)
        stack.callback(honest.end, signal.SIGKILL)
        wait_until_reached(frps)


def test_a_server_is_verified(tmp_path: Path, frps: Frps, authority: Authority, tunnels: StartTunnel) -> None:
    """A server of another CA, or of another name, gets neither token nor capability; the right one does."""
    folder = tmp_path / "other-ca"
    folder.mkdir()
    good = wanted(frps.server, authority, claim())
    logins = 0
    other = Authority(folder, "other").ca.read_text()
    for bad in (replace(good.access, ca=other), replace(good.access, server_name="gate")):
        tunnel = tunnels(replace(good, access=bad))
        wait_for(partial(tunnel.process.events, "exited"), "the login fails")
        assert len(frps.gate.process.events("login")) == logins
        tunnel.mount(good)
        wait_until_reached(frps)
        logins = len(frps.gate.process.events("login"))
        tunnel.process.end()


def test_without_the_gate_nobody_new_gets_in(
    frps: Frps, gate: Gate, trainer: Tunnel, authority: Authority, tunnels: StartTunnel
) -> None:
    """While the gate is down new logins and new sessions are refused and open ones live; then all is well again."""
    with session(frps) as connection:
        gate.process.end(signal.SIGKILL)
        other = tunnels(wanted(frps.server, authority, OTHER))
        wait_for(lambda: other.process.events("exited"), "a login is refused without a gate")
        assert frps.greeting(HOST) == b""
        assert frps.greeting(OTHER.host) == b""
        assert alive(connection)
        gate.start()
        wait_until_reached(frps)
        wait_until_reached(frps, OTHER.host)
        assert alive(connection)
    assert len(trainer.process.events("started")) == 1


def test_a_revoked_unit_takes_no_new_session(frps: Frps, gate: Gate, trainer: Tunnel) -> None:
    """Once its capability holds no more, a unit's open sessions live and new ones are refused at once."""
    with session(frps) as connection:
        gate.set_keys(OTHER_KEY)
        assert frps.greeting(HOST) == b""
        assert alive(connection)
    assert len(trainer.process.events("started")) == 1


def test_servers_come_and_go(tmp_path: Path, frps: Frps, authority: Authority, gate: Gate, trainer: Tunnel) -> None:
    """A server new in the list is served by a process of its own; one gone from it loses its process; others stay."""
    (first,) = trainer.children()
    second = Frps(tmp_path, authority, gate, "frps-1")
    try:
        one = wanted(frps.server, authority, claim())
        with session(frps) as connection:
            trainer.mount(replace(one, servers=(frps.server, second.server)))
            wait_until_reached(second)
            assert first in trainer.children()
            assert alive(connection)
        trainer.mount(replace(one, servers=(second.server,)))
        wait_for(lambda: b" 404 " in frps.status(HOST), "the first server does not know the host any more")
        assert wait_for(lambda: len(trainer.children()) == 1, "one process is left")
        assert first not in trainer.children()
        assert second.greeting(HOST) == BANNER
        assert not (trainer.folder / "state" / "frps-0").exists()
    finally:
        second.process.end()


def test_new_secrets_wait_for_the_next_login(frps: Frps, gate: Gate, trainer: Tunnel, authority: Authority) -> None:
    """A changed capability cuts nothing: the session lives in the same frpc, and the next login is with the new one."""
    gate.set_keys(OTHER_KEY, GATE_KEY)
    (before,) = trainer.children()
    with session(frps) as connection:
        trainer.mount(wanted(frps.server, authority, claim(), OTHER_KEY))
        wait_for(lambda: trainer.process.events("outdated"), "the change is seen")
        holds(lambda: list(trainer.children()) == [before], "the same frpc runs on")
        assert alive(connection)
        # more than wait in the pool: each takes a new connection of the frpc that is outdated
        assert [frps.greeting(HOST) for _ in range(4)] == [BANNER] * 4
    logins = len(gate.process.events("login"))
    trainer.process.popen.send_signal(signal.SIGSTOP)
    frps.process.end()
    frps.start()
    # The previous capability is still let in: an frpc that was faster than its supervisor must not keep it.
    wait_for(lambda: len(gate.process.events("login")) > logins, "the old frpc logs in again")
    trainer.process.popen.send_signal(signal.SIGCONT)
    wait_for(lambda: trainer.children() and before not in trainer.children(), "another frpc is there")
    wait_until_reached(frps)
    gate.set_keys(OTHER_KEY)
    assert frps.greeting(HOST) == BANNER


def test_a_restarted_frps_with_a_new_token_and_ca_is_found_again(
    tmp_path: Path, frps: Frps, trainer: Tunnel, authority: Authority
) -> None:
    """Token and CA are rotated while the tunnel is up; when frps returns with them, the unit does too, by itself."""
    folder = tmp_path / "new-ca"
    folder.mkdir()
    renewed = Authority(folder, "new")
    token = "the-next-token-of-this-test"
    trainer.mount(replace(wanted(frps.server, authority, claim()), access=_access(renewed, token)))
    wait_for(lambda: trainer.process.events("outdated"), "the change is seen")
    frps.process.end()
    frps.set_token(token)
    frps.start(renewed.issue("frps"))
    wait_until_reached(frps)


def _access(authority: Authority, token: str) -> Access:
    return Access("frps", authority.ca.read_text(), token, metas(claim())["capability"], tcp_mux=False)


def test_a_restarted_frps_is_found_again(frps: Frps, trainer: Tunnel) -> None:
    """Without a change frpc itself logs in again, in the same process."""
    before = list(trainer.children())
    frps.process.end()
    frps.start()
    wait_until_reached(frps)
    assert list(trainer.children()) == before


def test_a_dead_frpc_is_replaced_and_buried(frps: Frps, trainer: Tunnel) -> None:
    """A killed frpc is followed by another, and leaves no zombie."""
    (before,) = trainer.children()
    kill(before)
    wait_for(lambda: trainer.process.events("exited"), "the death is seen")
    wait_until_reached(frps)
    assert before not in trainer.children()
    assert "Z" not in trainer.children().values()


def test_a_new_host_takes_effect_at_once(frps: Frps, trainer: Tunnel, authority: Authority) -> None:
    """A unit that is renamed leaves its old host."""
    trainer.mount(wanted(frps.server, authority, OTHER))
    wait_until_reached(frps, OTHER.host)
    assert b" 404 " in frps.status(HOST)


def test_the_host_is_announced_once_sshd_answers(frps: Frps, authority: Authority, tunnels: StartTunnel) -> None:
    """Before sshd is up frps does not know the host, and nothing is said to be ready."""
    sshd = Echo()
    sshd.end()
    tunnel = tunnels(wanted(frps.server, authority, claim()), sshd)
    wait_for(lambda: tunnel.process.events("waiting-for-sshd"), "the supervisor waits")
    assert b" 404 " in frps.status(HOST)
    again = Echo(sshd.port)
    try:
        wait_until_reached(frps)
    finally:
        again.end()
    assert len(tunnel.process.events("waiting-for-sshd")) == 1


def test_bad_files_cut_nothing(frps: Frps, trainer: Tunnel, authority: Authority) -> None:
    """A folder that turns bad is complained of once; the tunnel stands, and follows the next good version."""
    good = wanted(frps.server, authority, claim())
    with session(frps) as connection:
        trainer.mount(replace(good, access=replace(good.access, capability="nonsense")))
        wait_for(lambda: trainer.process.events("waiting-for-files"), "a complaint")
        holds(lambda: alive(connection), "the session lives")
        assert len(trainer.process.events("waiting-for-files")) == 1
    trainer.mount(wanted(frps.server, authority, OTHER))
    wait_until_reached(frps, OTHER.host)


def test_it_waits_for_its_files(frps: Frps, authority: Authority, tmp_path: Path, sshd: Echo) -> None:
    """Without files it says so and waits; once they are there it starts."""
    (tmp_path / "late").mkdir()
    tunnel = Tunnel(tmp_path / "late", sshd)
    try:
        (complaint,) = wait_for(lambda: tunnel.process.events("waiting-for-files"), "a complaint")
        assert "tunnel.json" in complaint["reason"]
        tunnel.mount(wanted(frps.server, authority, claim()))
        wait_until_reached(frps)
    finally:
        tunnel.process.end()


def test_it_ends_promptly_and_leaves_nothing(frps: Frps, trainer: Tunnel) -> None:
    """SIGTERM ends supervisor and frpc, at once and in order; no secret stays in the folder."""
    (child,) = trainer.children()
    assert trainer.process.end() == 0
    assert not Path(f"/proc/{child}").exists()
    assert list((trainer.folder / "state").iterdir()) == []
    assert [line["event"] for line in trainer.process.events()][-1] == "stopped"
    wait_for(lambda: b" 404 " in frps.status(HOST), "frps forgets the host")


def test_it_stays_for_the_sessions_of_a_unit_that_ends(frps: Frps, authority: Authority, tmp_path: Path) -> None:
    """Told to end, it carries sessions on until sshd has ended, which it does after the program; then it ends."""
    sshd = Echo()
    (tmp_path / "stays" / "mount").mkdir(parents=True)
    tunnel = Tunnel(tmp_path / "stays", sshd, ("--until-sshd-ends",))
    tunnel.mount(wanted(frps.server, authority, claim()))
    with ending(sshd.end, tunnel.process.end):
        wait_until_reached(frps)
        with session(frps) as connection:
            tunnel.process.popen.terminate()
            with pytest.raises(subprocess.TimeoutExpired):
                tunnel.process.popen.wait(1)
            assert alive(connection)
        with session(frps) as another:
            assert alive(another)
        sshd.end()
        assert tunnel.process.popen.wait(10) == 0


def test_servers_that_are_down_hold_no_other_up(frps: Frps, authority: Authority, tunnels: StartTunnel) -> None:
    """A server that is down is tried again later and later; the unit is reached through the others meanwhile."""
    down = Server("frps-9", "127.0.0.1", free_port())
    tunnel = tunnels(replace(wanted(down, authority, claim()), servers=(down, frps.server)))
    wait_until_reached(frps)
    tries = wait_for(lambda: (found := tunnel.process.events("started"))[4:] and found, "four tries")
    down_tries = [datetime.fromisoformat(line["time"]) for line in tries if line["server"] == "frps-9"]
    exits = tunnel.process.events("exited")
    assert {line["server"] for line in exits} == {"frps-9"}
    for number, line in enumerate(exits[: len(down_tries) - 1]):
        waited = down_tries[number + 1] - datetime.fromisoformat(line["time"])
        assert waited.total_seconds() > line["retry"] - 0.02
