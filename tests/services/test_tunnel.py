import json
import os
import stat
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tunnel import wanted as module
from tunnel.frpc import CUT_OFF_SECONDS, Frpc, Link, Program, _pass_on, link_of, start, without, write_private
from tunnel.frpc_config import Admin, frpc_config
from tunnel.retry import LONGEST_WAIT, Retry
from tunnel.supervisor import Supervisor, reap_orphans, should_restart
from tunnel.wanted import Server, Wanted, WantedError, read_wanted

from tests.services.world import TOKEN, Authority, claim, mount, wait_for, wanted
from tools.toolchain import ensure

SERVER = Server("frps-0", "frps-0.gpu-runtime.svc", 7000)


@pytest.fixture
def tunnel(authority: Authority) -> Wanted:
    """Return what a unit's folder says."""
    return wanted(SERVER, authority, claim())


@pytest.fixture
def mounted(tmp_path: Path, tunnel: Wanted) -> Path:
    """Return a folder as the kubelet mounts it."""
    mount(tmp_path, tunnel)
    for name in ("tunnel.json", "ca.crt", "token", "capability"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    return tmp_path


def test_the_folder_is_read_whole(mounted: Path, tunnel: Wanted) -> None:
    """What was mounted is what is wanted, and the next version is seen after the swap."""
    assert read_wanted(mounted) == tunnel
    other = replace(tunnel, unit=replace(tunnel.unit, host=claim("other").host))
    mount(mounted, other)
    assert read_wanted(mounted) == other


def test_the_files_are_of_one_version(mounted: Path, tunnel: Wanted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A swap between the first file and the last does not mix two versions."""
    read = module._text
    other = wanted(SERVER, Authority(mounted, "other"), claim("other"))

    def read_and_swap(path: Path) -> str:
        text = read(path)
        mount(mounted, other)
        return text

    monkeypatch.setattr(module, "_text", read_and_swap)
    assert read_wanted(mounted) == tunnel
    monkeypatch.undo()
    assert read_wanted(mounted) == other


def test_a_plain_folder_will_do(mounted: Path, tunnel: Wanted) -> None:
    """Outside Kubernetes there is no link to swap."""
    (mounted / "..data").rename(mounted / "plain")
    assert read_wanted(mounted / "plain") == tunnel


BAD_FILES = {
    "no CA": ("ca.crt", None),
    "empty CA": ("ca.crt", b""),
    "odd CA": ("ca.crt", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    "no token": ("token", None),
    "short token": ("token", b"short"),
    "two tokens": ("token", b"a" * 20 + b"\n" + b"b" * 20),
    "binary token": ("token", b"\xff" * 32),
    "no capability": ("capability", None),
    "odd capability": ("capability", b"x" * 64),
    "no tunnel": ("tunnel.json", None),
    "half a tunnel": ("tunnel.json", b'{"owner": "dev"'),
    "not an object": ("tunnel.json", b"[]"),
    "deep": ("tunnel.json", b"[" * 100_000),
}


@pytest.mark.parametrize(("name", "content"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_files_are_named(mounted: Path, name: str, content: bytes | None) -> None:
    """A missing or odd file is a refusal that names it and repeats nothing of a secret."""
    file = mounted / name
    if content is None:
        file.resolve().unlink()
    else:
        file.resolve().write_bytes(content)
    with pytest.raises(WantedError, match=name) as error:
        read_wanted(mounted)
    assert TOKEN not in str(error.value)


BAD_TUNNELS: dict[str, Any] = {
    "unknown key": {"role": 1},
    "empty host": {"host": ""},
    "upper case host": {"host": "TRAINER.lab-a.test"},
    "wildcard host": {"host": "*.test"},
    "host is a template": {"host": "{{ .Envs.HOME }}"},
    "owner is a template": {"owner": "{{.Envs.HOME}}"},
    "name of a unit": {"unit": "a/b"},
    "server name": {"serverName": "-"},
    "no servers": {"servers": []},
    "servers is a name": {"servers": "frps-0"},
    "server is a name": {"servers": ["frps-0"]},
    "folder as a name": {"servers": [{"name": "../x", "address": "a", "port": 1}]},
    "odd address": {"servers": [{"name": "a", "address": "a b", "port": 1}]},
    "port 0": {"servers": [{"name": "a", "address": "a", "port": 0}]},
    "port is text": {"servers": [{"name": "a", "address": "a", "port": "7000"}]},
    "port is true": {"servers": [{"name": "a", "address": "a", "port": True}]},
    "more of a server": {"servers": [{"name": "a", "address": "a", "port": 1, "x": 1}]},
    "twice": {"servers": [{"name": "a", "address": "a", "port": 1}, {"name": "a", "address": "b", "port": 1}]},
}


@pytest.mark.parametrize("changes", BAD_TUNNELS.values(), ids=BAD_TUNNELS.keys())
def test_odd_tunnels_are_refused(mounted: Path, changes: dict[str, Any]) -> None:
    """Nothing enters frpc's configuration that was not judged: frp renders it as a template."""
    file = (mounted / "tunnel.json").resolve()
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(WantedError, match=r"tunnel\.json"):
        read_wanted(mounted)


def test_frpc_takes_its_configuration(tmp_path: Path, tunnel: Wanted) -> None:
    """The pinned frpc finds it well-formed, with no field that it does not know."""
    write_private(tmp_path / "frpc.json", frpc_config(tunnel, SERVER, Admin(7400, "p"), tmp_path, 2222))
    write_private(tmp_path / "token", TOKEN)
    write_private(tmp_path / "ca.crt", tunnel.access.ca)
    argv = [str(ensure("frpc")["frpc"]), "verify", "-c", str(tmp_path / "frpc.json")]
    verified = subprocess.run(argv, capture_output=True, text=True, check=False, env={})
    assert (verified.returncode, "syntax is ok" in verified.stdout) == (0, True), verified.stdout


def test_frpc_configuration_keeps_its_promises(tmp_path: Path, tunnel: Wanted) -> None:
    """TLS is verified, the token is a file, the API is loopback with a password, heartbeats and health are explicit."""
    said = json.loads(frpc_config(tunnel, SERVER, Admin(7400, "p"), tmp_path, 2222))
    assert said["transport"]["tls"] == {"enable": True, "trustedCaFile": f"{tmp_path}/ca.crt", "serverName": "frps"}
    assert (said["transport"]["heartbeatInterval"], said["transport"]["heartbeatTimeout"]) == (10, 30)
    assert said["transport"]["wireProtocol"] == "v2"
    assert said["auth"]["tokenSource"] == {"type": "file", "file": {"path": f"{tmp_path}/token"}}
    assert said["webServer"] == {"addr": "127.0.0.1", "port": 7400, "user": "supervisor", "password": "p"}
    (proxy,) = said["proxies"]
    assert (proxy["name"], proxy["customDomains"], proxy["type"]) == (claim().host, [claim().host], "tcpmux")
    assert (proxy["localIP"], proxy["localPort"]) == ("127.0.0.1", 2222)
    assert "healthCheck" not in proxy, "frpc sleeps before the first look, and a login waits for it"
    assert TOKEN not in json.dumps(said)


def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    """The files of frpc are readable by their owner alone, from the first byte on."""
    before = os.umask(0)
    try:
        write_private(tmp_path / "file", "one")
        write_private(tmp_path / "file", "two")
    finally:
        os.umask(before)
    assert (tmp_path / "file").read_text() == "two"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("status", "link"),
    [
        (None, Link.UNKNOWN),
        ({}, Link.DOWN),
        ({"tcpmux": [{"name": "other", "status": "running"}]}, Link.DOWN),
        ({"tcpmux": [{"name": "h", "status": "running"}]}, Link.ANNOUNCED),
        ({"tcpmux": [{"name": "h", "status": "start error", "err": "no"}]}, Link.REFUSED),
        ({"tcpmux": [{"name": "h", "status": "check failed"}]}, Link.IDLE),
        ({"tcpmux": [{"name": "h", "status": "wait start"}]}, Link.IDLE),
    ],
)
def test_status_says_how_frpc_stands(status: object, link: Link) -> None:
    """A proxy is listed exactly while its frpc is logged in; what cannot be asked is unknown."""
    assert link_of(status, "h")[0] is link


def frpc(tunnel: Wanted, link: Link, *, stale: bool = False, announced: bool = True) -> Frpc:
    """Return an frpc, without a process, that stands as said."""
    process: Any = None
    return Frpc(
        SERVER, tunnel, process, Admin(1, "p"), Path(), SERVER.address, announced=announced, stale=stale, link=link
    )


@pytest.mark.parametrize("link", Link)
def test_a_live_frpc_is_not_cut_for_new_secrets(tunnel: Wanted, link: Link) -> None:
    """New secrets replace an frpc that is logged out or refused; not to know is no reason."""
    assert should_restart(frpc(tunnel, link, stale=True), tunnel) == (link in (Link.DOWN, Link.REFUSED))


def test_who_logged_in_again_with_what_was_outdated_makes_way(tunnel: Wanted) -> None:
    """An frpc that was faster than its supervisor does not keep the old capability until the next time."""
    back = frpc(tunnel, Link.ANNOUNCED, stale=True)
    back.returned = True

    assert should_restart(back, tunnel)


@pytest.mark.parametrize("link", Link)
def test_a_new_name_takes_effect_at_once(tunnel: Wanted, link: Link) -> None:
    """Another host or owner is another tunnel."""
    for changes in ({"host": claim("other").host}, {"owner": "prod"}):
        assert should_restart(frpc(replace(tunnel, unit=replace(tunnel.unit, **changes)), link), tunnel)


@pytest.mark.parametrize("link", Link)
def test_nothing_changed_nothing_restarts(tunnel: Wanted, link: Link) -> None:
    """Without a change frpc reconnects by itself; only a host refused from the start is tried anew, and sooner."""
    assert not should_restart(frpc(tunnel, link), tunnel)
    assert should_restart(frpc(tunnel, link, announced=False), tunnel) == (link is Link.REFUSED)


WARNING = "2026-01-01 00:00:00.000 [W] [client/control.go:119] [0123abcd-4567] {}"
LOGIN = "2026-01-01 00:00:00.000 [I] [client/service.go:1] [0123abcd] login to server success, get run id [0123abcd]"


@pytest.mark.parametrize(
    "warning",
    [
        "start new connection to server error: dial tcp 10.43.0.9:7000: i/o timeout",
        "work connection write to server error: EOF",
    ],
)
def test_a_session_that_got_no_connection_counts_for_a_while(tunnel: Wanted, warning: str) -> None:
    """The reason stands until it is old or frpc has logged in again; the server is looked at without delay."""
    running = frpc(tunnel, Link.ANNOUNCED)
    running.look_due = 99.0
    running.hear(WARNING.format(warning), 10.0)
    assert (running.cut_off(10.0 + CUT_OFF_SECONDS - 1), running.look_due) == (warning, 0.0)
    running.hear(WARNING.format("something else"), 11.0)
    assert running.cut_off(12.0) == warning
    assert running.cut_off(10.0 + CUT_OFF_SECONDS) == ""
    running.hear(LOGIN, 12.0)
    assert running.cut_off(12.0) == ""


def test_other_warnings_cut_nothing_off(tunnel: Wanted) -> None:
    """What is no session's connection to the server, such as sshd's refusal, says nothing of the server."""
    running = frpc(tunnel, Link.ANNOUNCED)
    running.hear(WARNING.format("connect to local service [127.0.0.1:2222] error: connection refused"), 10.0)
    assert (running.cut_off(10.0), "local service" in running.complaint) == ("", True)


@pytest.mark.parametrize("link", Link)
def test_another_address_alone_replaces_nothing(tunnel: Wanted, tmp_path: Path, link: Link) -> None:
    """Some names differ at every look: only a server that is down, or takes no session, is followed to another."""
    supervisor, running = Supervisor(tmp_path, Program(tmp_path, tmp_path, 2222)), frpc(tunnel, link)
    supervisor.addresses.due[SERVER] = 100.0
    supervisor.addresses.known[SERVER] = "10.43.0.9"
    assert supervisor._moved(running, 0.0) == (link is Link.DOWN)
    running.hear(WARNING.format("start new connection to server error: EOF"), 0.0)
    assert supervisor._moved(running, 0.0)
    supervisor.addresses.known[SERVER] = running.address
    assert not supervisor._moved(running, 0.0)


def test_waits_grow_to_a_bound_and_differ() -> None:
    """Failures are tried again later and later, up to a bound, and never all at the same moment."""
    retry = Retry()
    waits = [retry.failed(100.0) for _ in range(50)]
    assert all(wait <= LONGEST_WAIT for wait in waits)
    assert waits[0] <= 0.5 < LONGEST_WAIT / 2 <= min(waits[10:])
    assert len(set(waits)) == len(waits)
    assert retry.due == 100.0 + waits[-1]


def test_orphans_are_buried_and_ours_are_not() -> None:
    """A dead child that nobody asked for leaves no zombie; the exit code of ours stays for its owner."""
    ours = subprocess.Popen(["/bin/sh", "-c", "exit 7"])
    orphan = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 0"], {})
    both = {ours.pid}

    def gone() -> bool:
        reap_orphans(both)
        if ours.poll() is not None:
            both.discard(ours.pid)
        return not Path(f"/proc/{orphan}").exists()

    wait_for(gone, "the orphan is buried")
    assert ours.wait() == 7


def test_hidden_words_are_hidden() -> None:
    """Should frpc ever print a secret, the log does not have it."""
    assert without("token=abc cap=def", ("abc", "def")) == "token=*** cap=***"


def test_an_frpc_that_cannot_start_is_an_error(tmp_path: Path, tunnel: Wanted) -> None:
    """A missing binary is an OSError for the supervisor to report, and no thread is left behind."""
    before = set(threading.enumerate())
    with pytest.raises(OSError, match="nothing"):
        start(Program(tmp_path / "nothing", tmp_path, 2222), SERVER, tunnel, SERVER.address)
    assert not [one.name for one in set(threading.enumerate()) - before if _pass_on.__name__ in one.name]
