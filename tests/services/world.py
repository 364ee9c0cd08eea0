"""What the services' tests stand on: certificates, processes whose output is read, a stand-in for sshd, frp."""

import contextlib
import http.client
import itertools
import json
import os
import random
import signal
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from gate.capability import capability, stack_key
from gate.claim import Claim
from tunnel.wanted import Access, Server, Unit, Wanted
from typing_extensions import override

from components import names
from components.frp_config import PKI_DIR, frps_toml
from tests.services.api import NAMESPACES, SERVICES, ApiServer, Store
from tools.toolchain import ensure

Found = TypeVar("Found")

ROOT = Path(__file__).parents[2]

GATE_KEY = bytes(range(32))
OTHER_KEY = bytes(range(32, 64))
LISTENERS = range(10_000, 30_000)
"""Ports that tests listen at: below those of connections, and of Kubernetes' node ports."""


def _listeners() -> Iterator[int]:
    """Give ports again and again: none twice before all were given, and none of another worker's."""
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    mine = [*LISTENERS[int(worker.removeprefix("gw")) :: int(workers)]]
    random.shuffle(mine)
    return itertools.cycle(mine)


_LISTENERS = _listeners()

TOKEN = "token-of-this-test-and-of-no-other"
OWNER = "dev"
SUFFIX = "ssh.example.test"


def wait_for(look: Callable[[], Found], what: str, seconds: float = 60.0) -> Found:
    """Return the first true answer of *look*; fail with *what* after *seconds*."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


def holds(look: Callable[[], bool], what: str, seconds: float = 2.5) -> None:
    """Fail with *what* as soon as *look* is false within *seconds*."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert look(), what
        time.sleep(0.05)


def free_port() -> int:
    """Return a port for a listener that nobody uses now, at any address.

    It is none of those that the kernel gives to connections (32768 and up on Linux, by ip_local_port_range): tests
    beside it open thousands of these, from many addresses of loopback, and each is in the way of who listens at all.
    """
    for port in _LISTENERS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("0.0.0.0", port))  # noqa: S104 - nothing listens there
            return port
    raise AssertionError("the ports never end")


def is_open(connection: socket.socket, seconds: float = 0) -> bool:
    """Tell whether the other end, which has nothing to say, has not closed *connection* within *seconds*."""
    connection.settimeout(seconds)
    try:
        return connection.recv(1) != b""
    except (BlockingIOError, TimeoutError):
        return True
    except OSError:
        return False


@dataclass(frozen=True)
class Authority:
    """A CA in *folder*, which issues certificates there."""

    folder: Path
    name: str = "ca"
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @cached_property
    def ca(self) -> Path:
        """The CA's certificate."""
        return self._write(self.name, self._certificate(self.name, self.key, ca=True), self.key)[0]

    def issue(self, name: str) -> tuple[Path, Path]:
        """Issue a server certificate for *name* and 127.0.0.1; return the files of certificate and key."""
        key = ec.generate_private_key(ec.SECP256R1())
        return self._write(f"{self.name}-{name}", self._certificate(name, key, ca=False), key)

    def _certificate(self, name: str, key: ec.EllipticCurvePrivateKey, *, ca: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, self.name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if not ca:
            names = [x509.DNSName(name), x509.IPAddress(ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> tuple[Path, Path]:
        cert, private = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        pem = serialization.Encoding.PEM
        cert.write_bytes(certificate.public_bytes(pem))
        private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return cert, private


@dataclass
class Process:
    """A started program; what it writes is in *output*."""

    argv: list[str]
    output: Path
    env: dict[str, str] = field(default_factory=dict)
    popen: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        with self.output.open("ab") as out:
            self.popen = subprocess.Popen(self.argv, stdout=out, stderr=subprocess.STDOUT, env=self.env)

    @property
    def text(self) -> str:
        """Everything written so far."""
        return self.output.read_text(errors="replace")

    def says(self, text: str) -> bool:
        """Tell whether *text* has been written."""
        return text in self.text

    def events(self, name: str = "") -> list[dict[str, Any]]:
        """Return the JSON lines written so far, those of the event *name* if given."""
        lines = [json.loads(line) for line in self.text.splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in lines if name in ("", line["event"])]

    def until(self, look: Callable[[], bool], what: str) -> None:
        """Wait until *look* is true; where that does not come, end the program, and fail with what it wrote."""
        try:
            wait_for(lambda: look() or self.popen.poll() is not None, what)
            assert self.popen.poll() is None, f"it ended with {self.popen.returncode} before {what}"
        except AssertionError as error:
            self.popen.kill()
            self.popen.wait()
            raise AssertionError(f"{error}; it said:\n{self.text[-4000:]}") from None

    def end(self, number: int = signal.SIGTERM) -> int:
        """Signal the program and wait for its end."""
        if self.popen.poll() is None:
            self.popen.send_signal(number)
            self.popen.send_signal(signal.SIGCONT)
        try:
            return self.popen.wait(60)
        finally:
            self.popen.kill()


def python(module: str, *argv: str, output: Path) -> Process:
    """Start one of our services as its container does."""
    env = {"PYTHONPATH": str(ROOT / "services"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    return Process([sys.executable, "-P", "-s", "-m", module, *argv], output, env)


class Echo(socketserver.ThreadingTCPServer):
    """Stands in for sshd: sends a banner, then back whatever comes."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0, banner: bytes = b"SSH-2.0-echo\r\n") -> None:
        super().__init__(("127.0.0.1", port), _EchoHandler)
        self.banner = banner
        self.port = int(self.server_address[1])
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def end(self) -> None:
        """Accept no more; connections that are open live on."""
        self.shutdown()
        self.server_close()

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that leave."""


class _EchoHandler(socketserver.BaseRequestHandler):
    server: Echo

    @override
    def handle(self) -> None:
        self.request.sendall(self.server.banner)
        while data := self.request.recv(65536):
            self.request.sendall(data)


def claim(unit: str = "trainer", namespace: str = "lab-a", owner: str = OWNER) -> Claim:
    """Return what the unit of that name rightly claims."""
    return Claim(owner, namespace, unit, f"{unit}.{namespace}.{SUFFIX}")


def metas(said: Claim, key: bytes = GATE_KEY) -> dict[str, str]:
    """Return frp metadata for *said* with its capability under the gate key *key*."""
    return {**asdict(said), "capability": capability(stack_key(key, said.owner), said)}


UNITS = (claim(), claim("other"))
"""What the tests' cluster has from the start."""


def labels(owner: str, component: str) -> dict[str, str]:
    """Return the labels by which the gate finds what is ours."""
    ours = {"app.kubernetes.io/part-of": "gpu-runtime", "gpu-runtime/owner": owner}
    return {**ours, "app.kubernetes.io/component": component}


def add_namespace(store: Store, name: str, owner: str = OWNER) -> None:
    """Put a tenant's namespace of the stack *owner* into a cluster."""
    store.put(NAMESPACES, name, labels=labels(owner, "tenant"))


def add_unit(store: Store, said: Claim) -> None:
    """Put the Service of a unit into a cluster, as the program writes it."""
    meta = {"labels": labels(said.owner, "unit"), "annotations": {"gpu-runtime/host": said.host}}
    store.put(SERVICES, f"unit-{said.unit}", said.namespace, **meta)


def remove_unit(store: Store, said: Claim) -> None:
    """Take it out again."""
    store.remove(SERVICES, f"unit-{said.unit}", said.namespace)


def a_cluster() -> Store:
    """Return a cluster with UNITS."""
    store = Store()
    for said in UNITS:
        add_namespace(store, said.namespace, said.owner)
        add_unit(store, said)
    return store


@dataclass
class Gate:
    """A running gate, the cluster that it follows, and how to ask it."""

    folder: Path
    authority: Authority
    owners: tuple[str, ...] = (OWNER,)
    cluster: Store = field(default_factory=a_cluster)
    port: int = field(default_factory=free_port)
    metrics_port: int = field(default_factory=free_port)
    process: Process = field(init=False)
    api: ApiServer = field(init=False)

    def __post_init__(self) -> None:
        self.set_keys(GATE_KEY)
        self.set_bandwidth("none")
        self.start_api()
        self.start()

    def start_api(self, port: int = 0) -> None:
        """Start the API server of the cluster."""
        files = self.authority.issue("api")
        self.api = ApiServer(self.cluster, self.folder / "api", self.authority.ca, files, port)

    def end(self) -> None:
        """End both."""
        self.process.end()
        self.api.end()

    def set_keys(self, *keys: bytes) -> None:
        """Swap the key file as the kubelet does."""
        self._swap("key", "".join(key.hex() + "\n" for key in keys))

    def set_bandwidth(self, said: str) -> None:
        """Swap the file that says what each unit may send and take."""
        self._swap("bandwidth", said)

    def _swap(self, name: str, text: str) -> None:
        fresh = self.folder / f"{name}.new"
        fresh.write_text(text)
        fresh.replace(self.folder / name)

    def start(self, *, ready: bool = True) -> None:
        """Start the gate and wait until it answers, and is ready."""
        cert, key = self.authority.issue("gate")
        owners = [arg for owner in self.owners for arg in ("--owner", owner)]
        files = ["--key-file", f"{self.folder}/key", "--cert-file", str(cert), "--private-key-file", str(key)]
        files += ["--bandwidth-file", f"{self.folder}/bandwidth"]
        listen = ["--listen", f"127.0.0.1:{self.port}", "--drain-seconds", "0.2"]
        listen += ["--metrics", f"127.0.0.1:{self.metrics_port}"]
        cluster = ["--api-server", f"127.0.0.1:{self.api.port}", "--api-dir", f"{self.folder}/api"]
        self.process = python("gate", *listen, *files, *owners, *cluster, output=self.folder / "gate.log")
        self.process.until(self.answers, "the gate answers")
        if ready:
            self.process.until(self.is_ready, "the gate is ready")

    def answers(self) -> bool:
        """Tell whether it answers at all."""
        with contextlib.suppress(OSError):
            return self.request("GET", "/livez")[0] == http.HTTPStatus.OK
        return False

    def is_ready(self) -> bool:
        """Tell whether it is ready."""
        return self.request("GET", "/healthz")[0] == http.HTTPStatus.OK

    def connect(self) -> ssl.SSLSocket:
        """Open a verified connection."""
        context = ssl.create_default_context(cafile=self.authority.ca)
        return context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), 10), server_hostname="gate")

    def request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send one request; return its status and the object answered."""
        context = ssl.create_default_context(cafile=self.authority.ca)
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def ask(self, op: str, content: dict[str, Any]) -> tuple[int, Any]:
        """Ask as frps does."""
        body = json.dumps({"version": "0.1.0", "op": op, "content": content}).encode()
        return self.request("POST", f"/frp?version=0.1.0&op={op}", body)


def frps_config(  # noqa: PLR0913, PLR0917 - what differs from the platform's
    folder: Path, port: int, connect_port: int, api_port: int, gate_port: int, cert: Path, key: Path
) -> str:
    """Return the platform's own configuration of frps, with this test's ports and files."""
    text = frps_toml(f"https://127.0.0.1:{gate_port}")
    changes = {
        f"bindPort = {names.FRPS_TUNNEL_PORT}": f"bindPort = {port}",
        f"tcpmuxHTTPConnectPort = {names.FRPS_CONNECT_PORT}": f"tcpmuxHTTPConnectPort = {connect_port}",
        f"webServer.port = {names.FRPS_API_PORT}": f"webServer.port = {api_port}",
        f"{PKI_DIR}/tls.crt": str(cert),
        f"{PKI_DIR}/tls.key": str(key),
        f"{PKI_DIR}/token": f"{folder}/frps-token",
    }
    for before, after in changes.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


@dataclass
class Frps:
    """A running frps that asks *gate*."""

    folder: Path
    authority: Authority
    gate: Gate
    name: str = "frps-0"
    port: int = field(default_factory=free_port)
    connect_port: int = field(default_factory=free_port)
    api_port: int = field(default_factory=free_port)
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        self.set_token(TOKEN)
        self.start()

    def set_token(self, token: str) -> None:
        """Take *token* from the next start on."""
        (self.folder / "frps-token").write_text(token)

    def start(self, certificate: tuple[Path, Path] | None = None, bind: str = "127.0.0.1") -> None:
        """Start frps at *bind*, with *certificate* if it is not of our authority, and wait until it listens."""
        cert, key = certificate or self.authority.issue("frps")
        config = self.folder / f"{self.name}.toml"
        ports = (self.port, self.connect_port, self.api_port, self.gate.port)
        text = frps_config(self.folder, *ports, cert, key)
        config.write_text(text.replace('bindAddr = "127.0.0.1"', f'bindAddr = "{bind}"'))
        # frps trusts for its plugin what its system trusts, and that is these two variables.
        env = {"SSL_CERT_FILE": str(self.authority.ca), "SSL_CERT_DIR": "/nonexistent"}
        argv = [str(ensure("frps")["frps"]), "-c", str(config)]
        self.process = Process(argv, self.folder / f"{self.name}.log", env)
        self.process.until(lambda: listens(self.port, bind) and listens(self.connect_port), "frps listens")

    @property
    def server(self) -> Server:
        """Say where this frps is, as a unit's list does."""
        return Server(self.name, "127.0.0.1", self.port)

    def open(self, host: str) -> tuple[bytes, socket.socket]:
        """CONNECT to *host*; return the status line and the open connection."""
        connection = socket.create_connection(("127.0.0.1", self.connect_port), 10)
        connection.sendall(f"CONNECT {host}:22 HTTP/1.1\r\nHost: {host}:22\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
            head += byte
        return head.split(b"\r\n")[0], connection

    def status(self, host: str) -> bytes:
        """Return the status line that a CONNECT to *host* gets."""
        line, connection = self.open(host)
        connection.close()
        return line

    def greeting(self, host: str) -> bytes:
        """Return the first line that *host* says through the tunnel, nothing where it cannot be reached."""
        with contextlib.suppress(OSError):
            status, connection = self.open(host)
            with connection, connection.makefile("rb") as lines:
                return lines.readline() if b" 200 " in status else b""
        return b""


def listens(port: int, address: str = "127.0.0.1") -> bool:
    """Tell whether somebody accepts connections on loopback's *port*."""
    with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
        return True
    return False


def wanted(server: Server, authority: Authority, said: Claim, key: bytes = GATE_KEY) -> Wanted:
    """Return a tunnel for *said* to *server* with a capability under the gate key *key*."""
    access = Access("frps", authority.ca.read_text(), TOKEN, metas(said, key)["capability"], tcp_mux=False)
    return Wanted(Unit(**asdict(said)), (server,), access)


def mount(folder: Path, tunnel: Wanted) -> None:
    """Put *tunnel* into *folder* as the kubelet puts a Secret: a new version, then one swap of a link."""
    version = folder / f"..{time.monotonic_ns()}"
    version.mkdir(parents=True)
    said = {
        **asdict(tunnel.unit),
        "serverName": tunnel.access.server_name,
        "servers": [asdict(server) for server in tunnel.servers],
        "tcpMux": tunnel.access.tcp_mux,
    }
    (version / "tunnel.json").write_text(json.dumps(said))
    (version / "ca.crt").write_text(tunnel.access.ca)
    (version / "token").write_text(tunnel.access.token)
    (version / "capability").write_text(tunnel.access.capability)
    link = folder / "..data.new"
    link.symlink_to(version.name)
    link.replace(folder / "..data")


class Listening(Protocol):
    """A server on loopback."""

    port: int


@dataclass
class Tunnel:
    """A running supervisor with its own sshd and its own mounted folder."""

    folder: Path
    sshd: Listening
    words: tuple[str, ...] = ()
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        places = ["--dir", f"{self.folder}/mount", "--state", f"{self.folder}/state"]
        program = ["--frpc", str(ensure("frpc")["frpc"]), "--local-port", str(self.sshd.port)]
        self.process = python("tunnel", *places, *program, *self.words, output=self.folder / "tunnel.log")

    def mount(self, tunnel: Wanted) -> None:
        """Change what is mounted."""
        mount(self.folder / "mount", tunnel)

    def children(self) -> dict[int, str]:
        """Return the processes of this supervisor: their numbers and states (`Z` is a zombie)."""
        found = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, parent = stat.read_text().rpartition(")")[2].split()[:2]
                if int(parent) == self.process.popen.pid:
                    found[int(stat.parent.name)] = state
        return found


@contextlib.contextmanager
def ending(*ends: Callable[[], object]) -> Iterator[None]:
    """Call every one of *ends* when the test is over."""
    with contextlib.ExitStack() as stack:
        for end in ends:
            stack.callback(end)
        yield


def kill(pid: int) -> None:
    """Kill the process *pid*."""
    os.kill(pid, signal.SIGKILL)
