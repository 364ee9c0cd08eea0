"""Real dufs behind the real Envoy with the routes that the service writes: what a tenant's people get."""

import hashlib
import http.client
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from routes.envoy import clusters_json, routes_json
from routes.hosts import Site

from components.browser import dufs_arguments
from components.routes import CLUSTERS_FILE, ROUTES_FILE
from tests.processes import has_open
from tests.services.cluster import PASSWORD, Json, browser, endpoint, endpoint_slice, htpasswd
from tests.services.cluster import secret as passwords
from tests.services.proxies import HOST, ROOT, Answer, Proxy, basic
from tests.services.test_routes import OWNERS, TRAINER, a_view
from tests.services.world import free_port, wait_for
from tools.images.build import part_files
from tools.images.recipes import DUFS, ENVOY

ALICE = basic("alice", PASSWORD)
LIMIT = 64 << 20
MIB = 1 << 20


def tell(proxy: Proxy, services: list[Json], slices: list[Json]) -> None:
    """Write what `routes` would, for a tenant with these and with Alice."""
    view = a_view(services=services, slices=slices, secrets=[passwords("lab-a", htpasswd("alice"))])
    tenants = view.tenants(OWNERS)
    proxy.put(CLUSTERS_FILE, clusters_json(tenants))
    proxy.put(ROUTES_FILE, routes_json(tenants, Site(HOST, 443)))


class Shown:
    """Two storages of lab-a behind one proxy: `dataset` is shown, `inbox` takes uploads; and a unit's port *web*."""

    def __init__(self, folder: Path, web: int = 9) -> None:
        self.folder, self.web = folder, web
        self.ports = {"dataset": free_port(), "inbox": free_port()}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        for name in self.ports:
            (folder / name).mkdir(parents=True)
            self.start(name)
        self.proxy = Proxy(part_files(ENVOY) / "envoy", folder / "proxy")
        self.tell()

    def start(self, name: str) -> None:
        """Run a storage's dufs."""
        said = dufs_arguments(f"/storage/lab-a/{name}", upload=name == "inbox")[1:]
        port = [word for word in said if not word.startswith("--port")]
        argv = [
            str(part_files(DUFS) / "dufs"),
            str(self.folder / name),
            "--bind=127.0.0.1",
            f"--port={self.ports[name]}",
            *port,
        ]
        self.running[name] = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        wait_for(lambda: self.healthy(name), f"the browser of {name} serves")

    def healthy(self, name: str) -> bool:
        """Ask as the kubelet does."""
        with suppress(OSError), closing(http.client.HTTPConnection("127.0.0.1", self.ports[name])) as connection:
            connection.request("GET", f"/storage/lab-a/{name}/__dufs__/health")
            return connection.getresponse().status == http.client.OK
        return False

    def tell(self) -> None:
        """Write what `routes` would."""
        services = [browser("dataset", "lab-a"), browser("inbox", "lab-a", upload=str(LIMIT))]
        there = endpoint("lab-a", "127.0.0.1")
        slices = [endpoint_slice(s, {"http": p}, there) for s, p in zip(services, self.ports.values(), strict=True)]
        services.append(TRAINER)
        slices.append(endpoint_slice(TRAINER, {"lab": self.web}, there))
        tell(self.proxy, services, slices)
        wait_for(lambda: self.status("GET", "dataset", "") == http.client.OK, "the proxy knows the storages")

    def open(self, storage: str) -> http.client.HTTPConnection:
        """Open a connection to a storage's origin."""
        return self.proxy.open(f"{storage}--lab-a.{HOST}")

    def ask(self, method: str, storage: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Ask as Alice."""
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        where = f"/storage/lab-a/{storage}/{path}"
        return self.proxy.ask(where, f"{storage}--lab-a.{HOST}", method=method, headers={**ALICE, **said}, body=body)

    def status(self, method: str, storage: str, path: str, body: bytes | None = None, **headers: str) -> int:
        """Ask, and give the status alone."""
        return self.ask(method, storage, path, body, **headers).status

    def end(self) -> None:
        """Stop all of it."""
        for process in (*self.running.values(), self.proxy.process.popen):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Give two storages behind a proxy."""
    made = Shown(tmp_path_factory.mktemp("shown"))
    yield made
    made.end()


def put(shown: Shown, storage: str, name: str, content: bytes) -> None:
    """Put a file into a storage, past the proxy, as a unit does."""
    (shown.folder / storage / name).write_bytes(content)


def test_files_search_and_archives_come_through(shown: Shown) -> None:
    """Path and query reach dufs as they are."""
    put(shown, "dataset", "a file.txt", b"content")
    assert shown.ask("GET", "dataset", "a%20file.txt").body == b"content"
    assert b"a file.txt" in shown.ask("GET", "dataset", "?q=FILE&simple").body
    assert shown.ask("GET", "dataset", "?zip").body.startswith(b"PK")
    assert shown.ask("GET", "dataset", "a%20file.txt", Range="bytes=3-").body == b"tent"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "MOVE", "COPY", "MKCOL", "POST", "LOCK"])
def test_a_storage_that_is_shown_is_asked_to_change_nothing(shown: Shown, method: str) -> None:
    """The proxy refuses, so that dufs does not have to."""
    put(shown, "dataset", "kept", b"kept")
    said = {"X_Update_Range": "append", "Destination": f"{ROOT}/new"}
    assert shown.status(method, "dataset", "kept", b"evil", **said) == 405
    assert (shown.folder / "dataset/kept").read_bytes() == b"kept"


def test_uploads_are_added_and_appended(shown: Shown) -> None:
    """A file in parts is whole, in a folder that was made for it."""
    content = os.urandom(3 * MIB)
    assert shown.status("MKCOL", "inbox", "folder") == 201
    assert shown.status("PUT", "inbox", "folder/file", content[:MIB]) == 201
    assert shown.status("PATCH", "inbox", "folder/file", content[MIB:], X_Update_Range="append") == 204
    assert shown.ask("GET", "inbox", "folder/file").body == content


def test_an_upload_that_was_cut_goes_on(shown: Shown) -> None:
    """Cut in the middle, on its way through the proxy: what has arrived is there, the rest is appended, bytes equal."""
    content, file = os.urandom(48 * MIB), shown.folder / "inbox/cut"
    with closing(shown.open("inbox")) as connection:
        connection.putrequest("PUT", "/storage/lab-a/inbox/cut")
        for name, value in {**ALICE, "Content-Length": str(len(content))}.items():
            connection.putheader(name, value)
        connection.endheaders(content[: 32 * MIB])
        wait_for(lambda: file.exists() and file.stat().st_size >= 20 * MIB, "most to arrive")
    wait_for(lambda: not has_open(shown.running["inbox"].pid, file), "the browser to notice the end")
    size = file.stat().st_size
    answer = shown.ask("HEAD", "inbox", "cut")
    assert answer.headers["Content-Length"] == str(size)
    assert 20 * MIB <= size < len(content)
    assert shown.status("PATCH", "inbox", "cut", content[size:], X_Update_Range="append") == 204
    assert hashlib.sha256(shown.ask("GET", "inbox", "cut").body).digest() == hashlib.sha256(content).digest()


def test_a_large_file_comes_through_little_memory(shown: Shown) -> None:
    """Of 20 GB the far end comes at once, and the first GiB streams through a proxy that does not grow with it."""
    size = 20 * 10**9
    with (shown.folder / "dataset/sparse").open("wb") as file:
        file.truncate(size - 4)
        file.seek(0, os.SEEK_END)
        file.write(b"last")
    assert shown.ask("GET", "dataset", "sparse", Range="bytes=-4").body == b"last"
    before = shown.proxy.memory
    with closing(shown.open("dataset")) as connection:
        connection.request("GET", f"{ROOT}/sparse", headers=ALICE)
        answer = connection.getresponse()
        assert answer.headers["Content-Length"] == str(size)
        for _ in range(1024):
            assert len(answer.read(MIB)) == MIB
        assert shown.proxy.memory - before < 16 * MIB
    far = shown.ask("GET", "dataset", "sparse", Range=f"bytes={size - 64 * MIB}-")
    assert (far.status, far.body) == (206, bytes(64 * MIB - 4) + b"last")
    assert shown.proxy.memory - before < 16 * MIB


@pytest.mark.parametrize(
    "name",
    [".gpu-runtime", "%2egpu-runtime", "%2Egpu%2druntime", ".gpu-runtim%65", "%2e%67%70%75%2D%72%75%6e%74%69%6D%65"],
)
@pytest.mark.parametrize(("method", "rest"), [("PUT", ""), ("PUT", "/done"), ("MKCOL", ""), ("PATCH", "/a/b")])
def test_what_prepare_keeps_is_not_written(shown: Shown, method: str, name: str, rest: str) -> None:
    """However it is written, nobody puts a marker beside the files that says what they are."""
    assert shown.status(method, "inbox", f"{name}{rest}", b"x", X_Update_Range="append") == 403
    assert not (shown.folder / "inbox/.gpu-runtime").exists()


@pytest.mark.parametrize(
    "name", [".gpu-runtime2", "x.gpu-runtime", ".GPU-runtime", "below/.gpu-runtime", "Xgpu-runtime"]
)
def test_other_names_are_written(shown: Shown, name: str) -> None:
    """Only that folder, at the top, is kept."""
    (shown.folder / "inbox/below").mkdir(exist_ok=True)
    assert shown.status("PUT", "inbox", name, b"x") == 201


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("PUT", {}),
        ("PATCH", {"X_Update_Range": "bytes=0-"}),
        ("PATCH", {"X_Update_Range": "APPEND"}),
        ("PATCH", {"X_Update_Range": ""}),
        ("PATCH", {}),
        ("COPY", {"Destination": "/storage/lab-a/inbox/kept"}),
        ("MOVE", {"Destination": "/storage/lab-a/inbox/kept"}),
        ("DELETE", {}),
    ],
)
def test_an_upload_replaces_and_removes_nothing(shown: Shown, method: str, said: dict[str, str]) -> None:
    """What is there stays, also by the ways that dufs leaves open."""
    put(shown, "inbox", "kept", b"kept")
    put(shown, "inbox", "other", b"evil")
    name = "other" if method in ("COPY", "MOVE") else "kept"
    assert shown.status(method, "inbox", name, b"evil", **said) in (403, 405)
    assert (shown.folder / "inbox/kept").read_bytes() == b"kept"


@pytest.mark.parametrize("length", [LIMIT + 1, 2**63 - 2, 2**63 - 1, 2**63])
def test_an_upload_over_the_limit_is_refused_before_it_is_read(shown: Shown, length: int) -> None:
    """By the length that it says, up to the largest there is; one that says none is refused, too."""
    with closing(shown.open("inbox")) as connection:
        connection.putrequest("PUT", "/storage/lab-a/inbox/large")
        for name, value in {**ALICE, "Content-Length": str(length)}.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status in (400, 413)
    with closing(shown.open("inbox")) as connection:
        connection.request("PUT", "/storage/lab-a/inbox/large", iter([b"x"]), ALICE, encode_chunked=True)
        assert connection.getresponse().status in (400, 411)
    assert not (shown.folder / "inbox/large").exists()


def test_a_tenants_page_is_locked_up_and_dufs_own_is_not(shown: Shown) -> None:
    """HTML of a volume runs nothing, however it is asked for; a listing has its own script and no other."""
    put(shown, "dataset", "evil.html", b"<script>fetch('/')</script>")
    for path in ("evil.html", "evil.html/", "evil.html?noscript"):
        answer = shown.ask("GET", "dataset", path)
        assert answer.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'"), path
    for path in ("", "?noscript", "?simple", "evil.html?view"):
        policy = shown.ask("GET", "dataset", path).headers["Content-Security-Policy"]
        assert "sandbox" not in policy, path
        assert "script-src 'self';" in policy
    assert {shown.ask("GET", "dataset", p).headers["X-Content-Type-Options"] for p in ("", "?simple", "evil.html")} == {
        "nosniff"
    }


@pytest.mark.parametrize("name", ["<b>&'\".html", "line\nbreak", "%2f", "--help", "\u202egnp", "..." * 80])
def test_a_hostile_name_comes_through(shown: Shown, name: str) -> None:
    """Quoted by the client, unquoted by dufs alone."""
    put(shown, "dataset", name, b"content")
    assert shown.ask("GET", "dataset", quote(name, safe="")).body == b"content"


@pytest.mark.parametrize("who", ["dufs", "proxy"])
def test_a_download_goes_on_after_a_death(shown: Shown, who: str) -> None:
    """Killed in the middle, and started again: the rest comes by Range, and the bytes are equal."""
    content = os.urandom(96 * MIB)  # more than all buffers on the way hold
    put(shown, "dataset", "large", content)
    with closing(shown.open("dataset")) as connection:
        connection.request("GET", f"{ROOT}/large", headers=ALICE)
        answer = connection.getresponse()
        tag, got = answer.headers["ETag"], answer.read(5 * MIB)
        kill(shown, who)
        with suppress(OSError, http.client.HTTPException):
            got += answer.read(len(content))
    assert 5 * MIB <= len(got) < len(content)
    rest = shown.ask("GET", "dataset", "large", Range=f"bytes={len(got)}-", If_Range=tag)
    assert rest.status == 206
    assert hashlib.sha256(got + rest.body).digest() == hashlib.sha256(content).digest()


def kill(shown: Shown, who: str) -> None:
    """End a part without a word, and start it again."""
    process = shown.running["dataset"] if who == "dufs" else shown.proxy.process.popen
    process.send_signal(signal.SIGKILL)
    process.wait()
    if who == "dufs":
        shown.start("dataset")
    else:
        shown.proxy.start()
    wait_for(lambda: shown.status("GET", "dataset", "") == http.client.OK, "the storage is shown again")
