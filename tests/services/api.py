"""A small, honest API server: lists in pages and watches with bookmarks, over TLS, for who has the token.

It keeps objects' metadata, and the rest of those that have more, with one counter of versions for all; a version that
was compacted away is gone, as in the real one. What only the real one shows is in e2e/.
"""

import contextlib
import json
import socket
import ssl
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

Json = dict[str, Any]

NAMESPACES, SERVICES = "/api/v1/namespaces", "/api/v1/services"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
SECRETS = "/api/v1/namespaces/gpu-runtime-access/secrets"
TOKEN = "token-of-the-gate"
BOOKMARK_SECONDS = 0.3


@dataclass
class Store:
    """All objects, and every change since *compacted*."""

    objects: dict[tuple[str, str, str], Json] = field(default_factory=dict)
    bodies: dict[tuple[str, str, str], Json] = field(default_factory=dict)
    """What an object has beside its metadata."""
    changes: list[tuple[int, str, str, Json]] = field(default_factory=list)
    """Version, path, what happened, and the object."""
    version: int = 100
    compacted: int = 0
    asked: list[str] = field(default_factory=list)
    """Each request's path and query."""
    token: str = TOKEN
    watch_seconds: float = 3.0
    """After this it ends a watch, whatever was asked for."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def put(self, path: str, name: str, namespace: str = "", **meta: Any) -> None:
        """Make or change an object; *meta* are labels, annotations and the like."""
        self._change(path, name, namespace, "ADDED", meta)

    def put_whole(self, path: str, thing: Json) -> None:
        """Make or change an object as it is written in a manifest."""
        meta = dict(thing["metadata"])
        name, namespace = meta.pop("name"), meta.pop("namespace", "")
        rest = {key: value for key, value in thing.items() if key != "metadata"}
        self.bodies[path, namespace, name] = rest
        self._change(path, name, namespace, "ADDED", meta)

    def remove(self, path: str, name: str, namespace: str = "") -> None:
        """Remove an object."""
        self._change(path, name, namespace, "DELETED", self.objects[path, namespace, name])

    def compact(self) -> None:
        """Forget every change so far: who asks for one is told that it is gone."""
        with self.changed:
            self.changes.clear()
            self.version += 1
            self.compacted = self.version
            self.changed.notify_all()

    def _change(self, path: str, name: str, namespace: str, what: str, meta: Json) -> None:
        with self.changed:
            self.version += 1
            said = {**meta, "name": name, "namespace": namespace, "resourceVersion": str(self.version)}
            if what == "DELETED":
                del self.objects[path, namespace, name]
            else:
                self.objects[path, namespace, name] = said
            body = self.bodies.get((path, namespace, name), {})
            self.changes.append((self.version, path, what, {**body, "metadata": said}))
            self.changed.notify_all()

    def listed(self, path: str, selector: str) -> list[Json]:
        """Give the objects at *path* that *selector* selects."""
        found = sorted((key, meta) for key, meta in self.objects.items() if key[0] == path)
        return [{**self.bodies.get(key, {}), "metadata": meta} for key, meta in found if selects(selector, meta)]

    def watched(self, path: str, selector: str, version: int) -> Iterator[Json]:
        """Yield events from *version* on; now and then a bookmark."""
        end = time.monotonic() + self.watch_seconds
        while time.monotonic() < end:
            with self.changed:
                if version < self.compacted:
                    yield {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
                    return
                for _, where, what, thing in self.changes[bisect_right(self.changes, version, key=_version) :]:
                    if where == path and selects(selector, thing["metadata"]):
                        yield {"type": what, "object": thing}
                version = self.version
                yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}
                self.changed.wait(BOOKMARK_SECONDS)


def _written(said: Json) -> bytes:
    """Write it as the real one does: what is not ASCII as UTF-8."""
    return json.dumps(said, ensure_ascii=False).encode()


def _version(change: tuple[int, str, str, Json]) -> int:
    return change[0]


def selects(selector: str, meta: Json) -> bool:
    """Tell whether *selector* (`key=value` and `key`, with commas) selects an object."""
    labels = meta.get("labels", {})
    pairs = (term.partition("=") for term in selector.split(","))
    return all(labels.get(key) == value if equals else key in labels for key, equals, value in pairs)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "ApiServer"

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer a list or a watch."""
        store, url = self.server.store, urlsplit(self.path)
        asked = {key: values[0] for key, values in parse_qs(url.query).items()}
        store.asked.append(self.path)
        if self.headers["Authorization"] != f"Bearer {store.token}":
            self._answer(HTTPStatus.UNAUTHORIZED, {"kind": "Status", "code": 401})
        elif "watch" in asked:
            self._watch(store.watched(url.path, asked["labelSelector"], int(asked["resourceVersion"])))
        else:
            self._answer(*self._page(store, url.path, asked))

    def _page(self, store: Store, path: str, asked: dict[str, str]) -> tuple[HTTPStatus, Json]:
        with store.changed:
            version, begin = map(int, asked.get("continue", f"{store.version}:0").split(":"))
            if version < store.compacted:
                return HTTPStatus.GONE, {"kind": "Status", "code": 410}
            found, end = store.listed(path, asked["labelSelector"]), begin + int(asked["limit"])
            more = {"continue": f"{version}:{end}"} if end < len(found) else {}
            return HTTPStatus.OK, {"metadata": {"resourceVersion": str(version), **more}, "items": found[begin:end]}

    def _answer(self, status: HTTPStatus, body: Json) -> None:
        text = _written(body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _watch(self, events: Iterator[Json]) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            line = _written(event) + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")


class ApiServer(ThreadingHTTPServer):
    """Serves *store* with the certificate and key in *files*; *folder* gets what a pod of the gate is given."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, store: Store, folder: Path, ca: Path, files: tuple[Path, Path], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.store, self.folder, self.port = store, folder, int(self.server_address[1])
        self._open: set[Any] = set()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        folder.mkdir(exist_ok=True)
        (folder / "ca.crt").write_bytes(ca.read_bytes())
        (folder / "token").write_text(store.token)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that leave."""

    def end(self) -> None:
        """Go away: accept no more, and cut every connection."""
        self.shutdown()
        self.server_close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
