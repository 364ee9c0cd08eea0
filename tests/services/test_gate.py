import contextlib
import http.client
import json
import re
import signal
import socket
import ssl
import time
import urllib.request
from pathlib import Path

import pytest
from gate.keys import KeyFileError, read_keys
from gate.server import REQUEST_SECONDS

from tests.services.world import (
    GATE_KEY,
    OTHER_KEY,
    Authority,
    Gate,
    Process,
    claim,
    free_port,
    metas,
    python,
    wait_for,
)

LOGIN = {"version": "0.70.1", "metas": metas(claim()), "client_spec": {}, "pool_count": 1, "client_address": "a:1"}


def allows(gate: Gate, key: bytes = GATE_KEY) -> bool:
    """Tell whether the gate lets a unit log in whose capability is of *key*."""
    status, answer = gate.ask("Login", {**LOGIN, "metas": metas(claim(), key)})
    return status == http.HTTPStatus.OK and answer["reject"] is False


def test_it_allows_and_refuses_over_https(door: Gate) -> None:
    """An frps gets its kind of answer: a login with a bound run id, a refusal with its reason."""
    status, answer = door.ask("Login", LOGIN)
    assert (status, answer["reject"], answer["unchange"]) == (200, False, False)
    assert answer["content"]["metas"] == LOGIN["metas"]
    status, answer = door.ask("Login", {**LOGIN, "metas": metas(claim("other")) | {"unit": "trainer"}})
    assert (status, answer["reject"]) == (200, True)
    assert "capability" in answer["reject_reason"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/frp", b"", 405),
        ("PUT", "/frp", b"{}", 405),
        ("POST", "/healthz", b"{}", 405),
        ("POST", "/", b"{}", 404),
        ("POST", "/frp/x", b"{}", 404),
        ("GET", "/../frp", b"", 404),
        ("POST", "/frp", b"", 400),
        ("POST", "/frp", b"{", 400),
        ("POST", "/frp", b"\xff\xfe", 400),
        ("POST", "/frp", b"[" * 60_000, 400),
    ],
)
def test_what_is_no_request_is_refused(door: Gate, method: str, path: str, body: bytes, status: int) -> None:
    """A wrong method or path, no JSON, or too much of it is an error, which frps takes for a refusal."""
    assert door.request(method, path, body)[0] == status
    assert allows(door)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"POST /frp HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /frp HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 411),
        (b"POST /frp HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /frp HTTP/1.1\r\nContent-Length: 70000\r\n\r\n", 413),
        (b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n", 431),
    ],
    ids=["nonsense", "odd length", "negative length", "chunked", "huge body", "huge head"],
)
def test_malformed_http_is_refused(door: Gate, head: bytes, status: int) -> None:
    """What is not HTTP as frps speaks it is refused, and the gate goes on."""
    with door.connect() as connection:
        connection.sendall(head)
        assert int(connection.recv(4096).split(b" ")[1]) == status
    assert allows(door)


def test_slow_and_silent_clients_hold_nobody_up(door: Gate) -> None:
    """While others connect and say nothing, or half of something, an honest request is answered at once."""
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection(("127.0.0.1", door.port)))
            stack.enter_context(door.connect()).sendall(b"POST /frp HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
        before = time.monotonic()
        assert allows(door)
        assert time.monotonic() - before < REQUEST_SECONDS


def test_a_slow_request_ends(door: Gate) -> None:
    """A client that never ends its request is dropped."""
    with door.connect() as connection:
        connection.sendall(b"POST /frp HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
        connection.settimeout(10)
        with contextlib.suppress(ConnectionError, ssl.SSLError):  # a timeout would be a failure
            assert connection.recv(100) == b""


def test_keys_are_read_again(gate: Gate) -> None:
    """A rotated key counts from the next request on; with both in the file, both count."""
    assert (allows(gate), allows(gate, OTHER_KEY)) == (True, False)
    gate.set_keys(OTHER_KEY, GATE_KEY)
    assert (allows(gate), allows(gate, OTHER_KEY)) == (True, True)
    gate.set_keys(OTHER_KEY)
    assert (allows(gate), allows(gate, OTHER_KEY)) == (False, True)


def test_without_a_key_nothing_is_allowed(gate: Gate) -> None:
    """A key file that is gone, empty or odd closes the gate and makes it unready, until a good one is there."""
    key = gate.folder / "key"
    for spoil in (key.unlink, lambda: key.write_text(""), lambda: key.write_text(f"{GATE_KEY.hex()}\nxx\n")):
        spoil()
        assert gate.ask("Login", LOGIN)[0] == 503
        assert gate.request("GET", "/healthz")[0] == 503
    gate.set_keys(GATE_KEY)
    assert allows(gate)


@pytest.mark.parametrize("text", ["", "\n", "zz\n", "00\n", f"{'00' * 32}\n{'00' * 31}\n", "é"])
def test_a_bad_key_file_is_no_key_file(tmp_path: Path, text: str) -> None:
    """Every line must be a whole key; there is no part of a key file that counts."""
    (tmp_path / "key").write_text(text)
    with pytest.raises(KeyFileError):
        read_keys(tmp_path / "key")


def test_sessions_are_logged_and_secrets_are_not(gate: Gate) -> None:
    """A session start is one JSON line with unit and client; no line has a capability, key or token proof."""
    user = {"user": "", "metas": metas(claim()), "run_id": "1"}
    content = {"user": user, "proxy_name": claim().host, "proxy_type": "tcpmux", "remote_addr": "203.0.113.7:5"}
    gate.ask("NewUserConn", content)
    gate.ask("Login", {**LOGIN, "privilege_key": "proof-of-token"})
    gate.ask("Login", {**LOGIN, "metas": metas(claim("other")) | {"unit": "trainer"}})
    (session,) = wait_for(lambda: gate.process.events("session"), "a session line")
    assert (session["namespace"], session["unit"], session["client"]) == ("lab-a", "trainer", "203.0.113.7:5")
    assert len(wait_for(lambda: gate.process.events("refused"), "a refusal line")) == 1
    assert not re.search(r"[0-9a-f]{64}|proof-of-token", gate.process.text)


def scrape(gate: Gate) -> dict[str, float]:
    """Read the gate's own metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{gate.metrics_port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line.startswith("gate_"))}


def test_answers_are_counted_without_names(gate: Gate) -> None:
    """Prometheus sees how many were let in and refused, and what is known; no series has a tenant's name in it."""
    allows(gate)
    allows(gate, OTHER_KEY)
    gate.set_keys(OTHER_KEY, GATE_KEY)
    allows(gate)
    gate.ask("what/a-client-made-up", {})
    found = scrape(gate)
    assert found['gate_decisions_total{decision="allowed",op="Login"}'] == 2
    assert found['gate_decisions_total{decision="refused",op="Login"}'] == 1
    assert found['gate_decisions_total{decision="refused",op="other"}'] == 1
    assert found['gate_previous_key_total{op="Login"}'] == 1
    assert (found['gate_view_objects{what="namespaces"}'], found['gate_view_objects{what="services"}']) == (1, 2)
    assert found['gate_view_age_seconds{what="services"}'] < 60
    assert not any(name in " ".join(found) for name in ("lab-a", "trainer", "made-up"))


def test_it_lives_while_it_is_not_ready(gate: Gate) -> None:
    """Without keys it is unready and alive: to start it again would help nobody."""
    (gate.folder / "key").unlink()
    assert gate.request("GET", "/healthz")[0] == 503
    assert gate.request("GET", "/livez")[0] == 200


def test_it_ends_in_order_and_at_once(gate: Gate) -> None:
    """SIGTERM makes it unready, serves on for the drain, and ends it with 0."""
    with gate.connect():
        assert gate.process.end() == 0
    assert [line["event"] for line in gate.process.events()][-2:] == ["draining", "stopped"]


def test_plain_http_gets_nothing(door: Gate) -> None:
    """The gate speaks TLS only."""
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/healthz")
        with pytest.raises((OSError, http.client.HTTPException)):
            connection.getresponse()


def start_without(missing: str, tmp_path: Path, authority: Authority) -> Process:
    """Start a gate of which one file is missing."""
    cert, key = authority.issue("gate")
    (tmp_path / "key").write_text(GATE_KEY.hex())
    files = {"--key-file": str(tmp_path / "key"), "--cert-file": str(cert), "--private-key-file": str(key)}
    files[missing] = str(tmp_path / "nothing")
    given = [argument for pair in files.items() for argument in pair]
    listen = ["--listen", f"127.0.0.1:{free_port()}", "--api-server", f"127.0.0.1:{free_port()}"]
    return python("gate", *listen, "--owner", "dev", *given, output=tmp_path / "gate.log")


@pytest.mark.parametrize("missing", ["--key-file", "--cert-file", "--private-key-file"])
def test_it_does_not_start_with_half_of_its_files(missing: str, tmp_path: Path, authority: Authority) -> None:
    """A missing file is one line that says so, and the exit code 1."""
    process = start_without(missing, tmp_path, authority)
    assert process.end(signal.SIGCONT) == 1
    assert "Traceback" not in process.text
    assert json.loads(process.text)["event"] == "cannot-start"
