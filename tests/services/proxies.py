"""The proxy as its tests meet it: the image's own Envoy with the configuration of the component, on loopback.

The files that `routes` writes in a pod are written here by hand, for one storage and one port of a unit.
"""

import base64
import hashlib
import http.client
import http.server
import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from proxy.admin import Admin
from typing_extensions import override

from components.derive import Authority
from components.envoy import Config, typed
from components.oidc_files import oidc_files
from components.oidc_spec import OidcSpec
from components.proxy_answers import LOG_FLAGS
from components.proxy_callback import KEY
from components.proxy_config import ROUTE_CONFIG, Places, bootstrap, sds_json
from components.proxy_filters import BASIC_AUTH
from components.proxy_oidc import Oidc
from components.proxy_spec import ProxyLimitsSpec
from components.routes import CLUSTERS_FILE, ROUTES_FILE
from tests.services.world import Process, free_port, python
from tools.images.build import part_files
from tools.images.recipes import LIMITS

HOST = "files.example.test"
STORAGE = f"dataset--lab-a.{HOST}"
PORT = f"http--trainer--lab-a.{HOST}"
ROOT = "/storage/lab-a/dataset"
SECRET = "0123456789abcdef" * 4
CLIENT_SECRET = "the-client-secret-that-no-log-may-have"
USER, PASSWORD = "lab-a", "a-password-that-no-log-may-have"

SOCKETS = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""What RFC 6455 has a server add to the client's key."""

API = "type.googleapis.com/envoy.config"


def hashed(user: str, password: str) -> str:
    """Give a line of htpasswd in the one form that Envoy takes."""
    digest = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
    return f"{user}:{{SHA}}{base64.b64encode(digest).decode()}\n"


def basic(user: str = USER, password: str = PASSWORD) -> dict[str, str]:
    """Give the header of a client that signs in."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def virtual_host(host: str, routes: list[Config], users: str | None) -> Config:
    """Give one origin, where *users* may come in; None leaves them out."""
    kind = "envoy.extensions.filters.http.basic_auth.v3.BasicAuthPerRoute"
    config = typed("", kind, users={"inline_string": users})["typed_config"] if users is not None else None
    said = {"typed_per_filter_config": {BASIC_AUTH: config}} if config else {}
    last = {"match": {"prefix": "/"}, "direct_response": {"status": 404}}
    return {"name": host, "domains": [host], **said, "routes": [*routes, last]}


def to(cluster: str, **match: str) -> Config:
    """Give a route that sends what matches to *cluster*, however long it takes."""
    return {"match": match, "route": {"cluster": cluster, "timeout": "0s"}}


def origins(users: str | None) -> list[Config]:
    """Give the virtual hosts of the storage and of the port."""
    home = {"match": {"path": "/"}, "redirect": {"path_redirect": f"{ROOT}/", "response_code": "FOUND"}}
    storage = [home, to("storage", path_separated_prefix=ROOT)]
    return [virtual_host(STORAGE, storage, users), virtual_host(PORT, [to("port", prefix="/")], users)]


def cluster(name: str, *ports: int) -> Config:
    """Give a cluster with an endpoint on loopback for each of *ports*."""
    at = [{"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": p}}}} for p in ports]
    assigned = {"cluster_name": name, "endpoints": [{"lb_endpoints": at}]}
    kind = f"{API}.cluster.v3.Cluster"
    return {"@type": kind, "name": name, "type": "STATIC", "connect_timeout": "2s", "load_assignment": assigned}


class Answer(NamedTuple):
    """What a client gets."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


@dataclass
class Proxy:
    """A running Envoy in *folder*, with *envoy* as its program."""

    envoy: Path
    folder: Path
    limits: ProxyLimitsSpec = field(default_factory=ProxyLimitsSpec)
    upstream: int = field(default_factory=free_port)
    """Where both origins lead, unless told otherwise."""
    issuer: OidcSpec | None = None
    """Who signs people in beside passwords."""
    address: str = "127.0.0.1"
    """Where it listens."""
    process: Process = field(init=False)
    sealer: Process | None = field(init=False, default=None)
    """What seals the issuer's codes."""
    places: Places = field(init=False)

    def __post_init__(self) -> None:
        for name in ("routes", "tls", "config", "oidc"):
            (self.folder / name).mkdir(parents=True)
        for name, content in oidc_files(CLIENT_SECRET, SECRET, SECRET).items():
            (self.folder / "oidc" / name).write_text(content)
        self.places = Places(
            address=self.address,
            https=free_port(),
            plain=free_port(),
            health=free_port(),
            routes=str(self.folder / "routes"),
            sds=str(self.folder / "config/sds.json"),
            tls=str(self.folder / "tls"),
            admin=str(self.folder / "admin.sock"),
            module=str(part_files(LIMITS) / "limits.so"),
            callback=str(self.folder / "callback.sock"),
        )
        self.certify(0)
        (self.folder / "config/sds.json").write_text(sds_json(self.places))
        self.clusters(cluster("storage", self.upstream), cluster("port", self.upstream))
        self.routes(*origins(hashed(USER, PASSWORD)))
        self.start()

    def start(self) -> None:
        """Start Envoy, and what seals codes beside it, and wait until it takes clients."""
        if self.issuer and self.sealer is None:
            said = (f"--socket={self.places.callback}", f"--key-file={self.folder}/oidc/{KEY}")
            self.sealer = python("proxy.callback", *said, output=self.folder / "sealer.log")
            self.sealer.until(Path(self.places.callback).exists, "codes are sealed")
        config = self.folder / "envoy.json"
        config.write_text(json.dumps(bootstrap(HOST, self.limits, 512 << 20, self.places, self._oidc())))
        argv = [str(self.envoy), "-c", str(config), "--disable-hot-restart", "--concurrency", "1"]
        self.process = Process([*argv, *LOG_FLAGS, "--file-flush-interval-msec", "50"], self.folder / "log")
        self.process.until(self.ready, "the proxy is ready")

    def _oidc(self) -> Oidc | None:
        return Oidc(self.issuer, HOST, self.places.https, str(self.folder / "oidc")) if self.issuer else None

    def ready(self) -> bool:
        """Tell what the kubelet is told."""
        with suppress(OSError):
            return plain(self.places.health, "/healthz").status == http.HTTPStatus.OK
        return False

    def certify(self, epoch: int) -> None:
        """Put another certificate in place of the last, as the kubelet does: a folder of links, moved at once."""
        crt, key = Authority(SECRET, epoch, "test").server(HOST, f"*.{HOST}")
        content = self.folder / f"tls/..{epoch}"
        content.mkdir()
        (content / "tls.crt").write_text(crt)
        (content / "tls.key").write_text(key)
        replaced = self.folder / "tls/..tmp"
        replaced.symlink_to(content.name)
        replaced.rename(self.folder / "tls/..data")
        for name in ("tls.crt", "tls.key"):
            if not (link := self.folder / "tls" / name).is_symlink():
                link.symlink_to(f"..data/{name}")

    def routes(self, *hosts: Config) -> None:
        """Replace the virtual hosts."""
        config = {"name": ROUTE_CONFIG, "ignore_port_in_host_matching": True, "virtual_hosts": list(hosts)}
        self._write(ROUTES_FILE, {"@type": f"{API}.route.v3.RouteConfiguration", **config})

    def clusters(self, *clusters: Config) -> None:
        """Replace the clusters."""
        self._write(CLUSTERS_FILE, *clusters)

    def _write(self, name: str, *resources: Config) -> None:
        self.put(name, json.dumps({"resources": resources}))

    def put(self, name: str, text: str) -> None:
        """Replace a file that it watches, at once."""
        new = self.folder / "routes" / f".{name}"
        new.write_text(text)
        new.rename(self.folder / "routes" / name)

    def connect(
        self, host: str = STORAGE, source: str = "127.0.0.2", epoch: int = 0, protocols: Sequence[str] = ()
    ) -> ssl.SSLSocket:
        """Open a TLS connection, which trusts the stack's authority alone."""
        context = ssl.create_default_context(cadata=Authority(SECRET, epoch, "test").certificate)
        if protocols:
            context.set_alpn_protocols([*protocols])
        at = "::1" if ":" in source else "127.0.0.1"
        opened = socket.create_connection((at, self.places.https), 60, (source, 0))
        return context.wrap_socket(opened, server_hostname=host)

    def open(self, host: str = STORAGE, source: str = "127.0.0.2") -> http.client.HTTPConnection:
        """Open a connection for requests to *host*."""
        connection = http.client.HTTPConnection(host)
        connection.sock = self.connect(host, source)
        return connection

    def ask(self, path: str, host: str = STORAGE, source: str = "127.0.0.2", **more: Any) -> Answer:
        """Ask *host* for *path*; *more*: method, body, headers (those of the user, unless given)."""
        with closing(self.open(host, source)) as connection:
            said = {"method": "GET", "headers": basic(), **more}
            connection.request(said.pop("method"), path, **said)
            return answer_of(connection)

    def status(self, path: str, host: str = STORAGE, **more: Any) -> int:
        """Ask, and give the status alone."""
        return self.ask(path, host, **more).status

    def lets_in(self, source: str = "127.0.0.2") -> bool:
        """Say whether a new connection is taken, and a request on it."""
        with suppress(OSError):
            return self.status(f"{ROOT}/a", source=source) == 200
        return False

    def say(self, said: bytes, host: str = STORAGE, source: str = "127.0.0.2") -> bytes:
        """Send bytes as they are; give what comes back until it is closed or then silent for two seconds."""
        with closing(self.connect(host, source)) as connection:
            connection.settimeout(20)
            connection.sendall(said)
            got = b""
            with suppress(OSError):
                while data := connection.recv(65536):
                    got += data
                    connection.settimeout(2)
            return got

    @property
    def admin(self) -> Admin:
        """Give its administration."""
        return Admin(Path(self.places.admin))

    @property
    def memory(self) -> int:
        """Give the bytes that Envoy has in memory."""
        status = Path(f"/proc/{self.process.popen.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    @property
    def log(self) -> list[dict[str, Any]]:
        """Give the lines of the access log."""
        return self.process.events("request")


def answer_of(connection: http.client.HTTPConnection) -> Answer:
    """Read the answer to the request that was sent last."""
    answer = connection.getresponse()
    return Answer(answer.status, answer.headers, answer.read())


def plain(port: int, path: str, headers: dict[str, str] | None = None) -> Answer:
    """Ask loopback without TLS."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", path, headers=headers or {})
        return answer_of(connection)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with what it was asked, as JSON; `/big` sends until it may end; an upgrade is echoed."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "Upstream"

    def do_GET(self) -> None:
        """Answer."""
        if self.headers.get("Upgrade") == "websocket":
            self._echo()
        else:
            self._answer()

    do_POST = do_PUT = do_DELETE = do_HEAD = do_GET  # noqa: N815 - http.server's words

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length).decode()
        said = {"method": self.command, "path": self.path, "headers": list(self.headers.items()), "body": body}
        content = self.server.body or json.dumps(said).encode()
        self.send_response(self.server.status)
        for name, value in [("Content-Length", str(len(content))), *self.server.headers]:
            self.send_header(name, value)
        self.end_headers()
        parts, half = memoryview(content), len(content) // 2
        with suppress(OSError):
            self.wfile.write(parts[:half])
            self.wfile.flush()
            self.server.may_end.wait(30)
            self.wfile.write(parts[half:])

    def _echo(self) -> None:
        """Take a socket as programs do: one without a key is none."""
        if "Sec-WebSocket-Key" not in self.headers:
            self.send_error(400)
            return
        accepted = hashlib.sha1(f"{self.headers['Sec-WebSocket-Key']}{SOCKETS}".encode(), usedforsecurity=False)
        self.send_response(101)
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accepted.digest()).decode())
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.end_headers()
        self.close_connection = True
        while data := self.connection.recv(65536):
            self.connection.sendall(data)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Upstream(http.server.ThreadingHTTPServer):
    """A server behind the proxy, which says what it was asked."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        self.headers: list[tuple[str, str]] = [("Content-Type", "application/json")]
        self.status, self.body = 200, b""
        self.may_end = threading.Event()
        self.may_end.set()
        super().__init__(("127.0.0.1", port), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def end(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()


class Download:
    """A download of *size* bytes in the middle of its file; the server ends it only when it may."""

    def __init__(self, asked: Proxy, path: str, size: int, source: str = "127.0.0.2") -> None:
        self.connection = asked.open(source=source)
        self.connection.request("GET", path, headers=basic())
        self.answer = self.connection.getresponse()
        self.got = self.answer.read(size // 4)

    def finish(self, upstream: Upstream) -> bytes:
        """Let the file end; give all of it."""
        upstream.may_end.set()
        with closing(self.connection):
            return self.got + self.answer.read()


OpenProxy = Callable[..., Proxy]
"""Starts a proxy with limits; `address` is where it listens."""


@contextmanager
def proxy(
    envoy: Path, folder: Path, upstream: int, issuer: OidcSpec | None = None, address: str = "127.0.0.1", **limits: int
) -> Iterator[Proxy]:
    """Run a proxy for a while, where *issuer* signs people in if it is given."""
    made = Proxy(envoy, folder, ProxyLimitsSpec(**limits), upstream, issuer, address)
    try:
        yield made
    finally:
        for process in filter(None, (made.process, made.sealer)):
            process.popen.kill()
            process.popen.wait()


def curl(asked: Proxy, url: str, *options: str) -> bytes:
    """Ask by curl, which speaks HTTP/2."""
    program = shutil.which("curl") or "curl"
    where = f"::127.0.0.1:{asked.places.https}"
    argv = [program, "-sk", "--http2", "--max-time", "60", "--connect-to", where, *options, url]
    return subprocess.run(argv, check=True, capture_output=True).stdout
