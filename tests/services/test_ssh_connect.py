import contextlib
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.services.world import ROOT, free_port

SCRIPT = str(ROOT / "tools" / "ssh_connect.py")

Serve = Callable[[socket.socket], None]


@contextlib.contextmanager
def proxy(serve: Serve, address: str = "127.0.0.1") -> Iterator[int]:
    """Run a proxy that treats its connection with *serve*; give its port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])


def head(connection: socket.socket) -> str:
    """Read a request's head."""
    got = b""
    while not got.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
        got += byte
    return got.decode()


def answer(data: bytes) -> Serve:
    """Answer with *data* and close."""

    def serve(connection: socket.socket) -> None:
        head(connection)
        connection.sendall(data)

    return serve


def run(port: int | str, host: str = "h", given: bytes | None = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the script; *given* is its input, None an input that stays open."""
    target = port if isinstance(port, str) else f"127.0.0.1:{port}"
    argv = [sys.executable, "-I", SCRIPT, target, host, "22"]
    if given is not None:
        return subprocess.run(argv, input=given, capture_output=True, timeout=20, check=False)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = process.stdout.read(), process.stderr.read()
        return subprocess.CompletedProcess(argv, process.wait(20), out, err)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def test_what_comes_with_the_answer_is_passed_on() -> None:
    """The unit's first bytes in the same packet as the proxy's answer are not lost."""
    with proxy(answer(OK + b"SSH-2.0-x\r\n")) as port:
        done = run(port, given=None)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"SSH-2.0-x\r\n", b"")


def test_it_asks_for_host_and_port() -> None:
    """The request is a plain CONNECT, with an IPv6 address in brackets."""
    for host, target in (("trainer.lab-a.test", "trainer.lab-a.test:22"), ("::1", "[::1]:22")):
        asked: list[str] = []

        def serve(connection: socket.socket, asked: list[str] = asked) -> None:
            asked.append(head(connection))
            connection.sendall(OK + b"x")

        with proxy(serve) as port:
            run(port, host, None)
        assert asked == [f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"]


def test_a_proxy_may_have_an_ipv6_address() -> None:
    """[v6]:port names a proxy."""
    with proxy(answer(OK + b"x"), "::1") as port:
        assert run(f"[::1]:{port}", given=None).stdout == b"x"


def test_everything_is_copied_both_ways() -> None:
    """Much data goes there and comes back the same, also after our input has ended."""
    data = bytes(range(256)) * (1 << 14)

    def serve(connection: socket.socket) -> None:
        head(connection)
        connection.sendall(OK)
        while more := connection.recv(1 << 16):
            connection.sendall(more)

    with proxy(serve) as port:
        assert run(port, given=data).stdout == data


def test_it_ends_when_the_unit_does() -> None:
    """The unit's end is the end, though our input stays open: ssh does not hang on a unit that is gone."""
    with proxy(answer(OK + b"bye")) as port:
        assert run(port, given=None).stdout == b"bye"


def test_it_ends_when_we_do() -> None:
    """The end of our input is the end, though the unit keeps its side open."""
    leave = threading.Event()

    def serve(connection: socket.socket) -> None:
        head(connection)
        connection.sendall(OK + b"x")
        leave.wait(20)

    with proxy(serve) as port:
        begin = time.monotonic()
        assert run(port, given=b"").returncode == 0
        assert time.monotonic() - begin < 15
    leave.set()


REFUSALS = {
    "unknown unit": (b"HTTP/1.1 404 Not Found\r\n\r\n", "no such unit or it is not up: h"),
    "too many": (b"HTTP/1.1 429 Too Many Requests\r\n\r\n", "too many connections to h or from your address: end some"),
    "no server": (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "h: its tunnel server is away; try again"),
    "forbidden": (b"HTTP/1.1 403 Forbidden\r\n\r\n", "refused h: HTTP/1.1 403 Forbidden"),
    "closed": (b"", "closed the connection"),
    "no proxy": (b"SSH-2.0-OpenSSH\r\n\r\n", "is no HTTP proxy"),
    "endless": (b"x" * 100_000, "is no HTTP proxy"),
    "refused in the tunnel": (OK, "closed the connection at once"),
}


@pytest.mark.parametrize(("data", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_says_why(data: bytes, message: str) -> None:
    """No tunnel: one sentence, the exit code 1, nothing on standard output."""
    with proxy(answer(data)) as port:
        done = run(port, given=None)
    assert (done.returncode, done.stdout) == (1, b"")
    assert message in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere", "is not PROXYHOST:PORT"),
        ("a:b", "is not PROXYHOST:PORT"),
        ("a:²", "is not PROXYHOST:PORT"),
        ("a:65536", "is not PROXYHOST:PORT"),
        (f"{'x' * 64}:1", "is not a host name"),
        ("no.invalid:1", "has no address"),
    ],
)
def test_a_wrong_proxy_is_named(target: str, message: str) -> None:
    """A proxy that cannot be is refused by name."""
    done = run(target)
    assert (done.returncode, message in done.stderr.decode()) == (1, True)


def test_a_proxy_that_is_down_is_named() -> None:
    """Nobody listens: said with the address."""
    port = free_port()
    done = run(port)
    assert done.returncode == 1
    assert f"cannot reach 127.0.0.1:{port}" in done.stderr.decode()


def test_a_silent_proxy_times_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A proxy that accepts and says nothing is given up, with a sentence."""
    from tools import ssh_connect  # noqa: PLC0415 - only here it is a module

    monkeypatch.setattr(ssh_connect, "CONNECT_SECONDS", 0.2)
    leave = threading.Event()

    def serve(_: socket.socket) -> None:
        leave.wait(10)

    with proxy(serve) as port:
        assert ssh_connect.main([f"127.0.0.1:{port}", "h", "22"]) == 1
    leave.set()
    assert "did not answer within" in capsys.readouterr().err


def test_a_tunnel_that_ends_at_once_is_not_handed_over() -> None:
    """Who would hand it over still says why nothing came, since ssh could not."""
    with proxy(answer(OK)) as port:
        done = run_handing(port)
    assert (done.returncode, b"closed the connection at once" in done.stderr) == (1, True)


def test_handing_over_needs_somebody_who_takes_it() -> None:
    """Without ssh's word for it beside the flag, one sentence says so."""
    with proxy(answer(OK + b"SSH-2.0-x\r\n")) as port:
        done = run_handing(port)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"needs `ProxyUseFdpass yes` beside it" in done.stderr


def test_a_silent_sshd_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While it waits for the connection ssh minds no time of its own: who hands over does."""
    from tools import ssh_connect  # noqa: PLC0415 - only here it is a module

    monkeypatch.setattr(ssh_connect, "GREETING_SECONDS", 0.2)
    leave = threading.Event()

    def serve(connection: socket.socket) -> None:
        head(connection)
        connection.sendall(OK)
        leave.wait(10)

    with proxy(serve) as port:
        assert ssh_connect.main(["--hand-over", f"127.0.0.1:{port}", "h", "22"]) == 1
    leave.set()
    assert "its sshd did not greet within" in capsys.readouterr().err


def run_handing(port: int) -> subprocess.CompletedProcess[bytes]:
    """Run the script as if ssh took its connection; its output is a pipe."""
    argv = [sys.executable, "-I", SCRIPT, "--hand-over", f"127.0.0.1:{port}", "h", "22"]
    return subprocess.run(argv, capture_output=True, timeout=20, check=False)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client")
@pytest.mark.parametrize("words", [[], ["--hand-over"]], ids=["copying", "handing over"])
def test_ssh_itself_takes_it(words: list[str]) -> None:
    """OpenSSH speaks through it, or by the connection it was given: it says the banner that it got, whole."""

    def serve(connection: socket.socket) -> None:
        head(connection)
        connection.sendall(OK + b"SSH-2.0-test\r\n")
        assert connection.recv(100).startswith(b"SSH-2.0-OpenSSH")

    with proxy(serve) as port:
        command = shlex.join([sys.executable, SCRIPT, *words, f"127.0.0.1:{port}", "%h", "%p"])
        taken = f"ProxyUseFdpass={'yes' if words else 'no'}"
        argv = ["ssh", "-F", "none", "-v", "-o", f"ProxyCommand={command}", "-o", taken, "-oBatchMode=yes", "unit"]
        done = subprocess.run(argv, capture_output=True, timeout=20, check=False, stdin=subprocess.DEVNULL)
    assert b"Remote protocol version 2.0, remote software version test" in done.stderr
