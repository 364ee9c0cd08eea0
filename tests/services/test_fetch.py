"""Downloads into a volume: resumed where they were cut, taken only with their digest, and never outside the volume."""

import hashlib
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prepare import fetch
from prepare.download import opener, plain
from prepare.fetch import Fetcher, Item
from prepare.volume import PrepareError
from typing_extensions import override

from tests.services.world import ROOT, wait_for

DATA = os.urandom(1 << 20) * 5
SHA = hashlib.sha256(DATA).hexdigest()

Behave = Callable[["Handler", int], bool]
"""What a server does to its nth request; True: it has answered."""


@dataclass
class Web:
    """A server of `DATA` at every path, which can be told to misbehave."""

    server: http.server.ThreadingHTTPServer
    behave: Behave = lambda _handler, _nth: False
    ranges: list[str] = field(default_factory=list)
    """What the requests asked for, in order; empty: all."""

    def url(self, path: str = "/data?token=hidden") -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}{path}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with `DATA`, or the rest of it."""

    web: Web
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer as told."""
        asked = self.headers.get("Range", "")
        self.web.ranges.append(asked)
        if self.web.behave(self, len(self.web.ranges)):
            return
        found = re.fullmatch(r"bytes=(\d+)-", asked)
        begin = int(found[1]) if found else 0
        if begin >= len(DATA):
            self.only(416)
            return
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(DATA) - 1}/{len(DATA)}")
        self.send_header("Content-Length", str(len(DATA) - begin))
        self.end_headers()
        self.wfile.write(DATA[begin:])

    def only(self, status: int, **headers: str) -> bool:
        """Answer with a status alone."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()
        return True

    def cut(self, amount: int) -> bool:
        """Promise all of `DATA`, send *amount* bytes of what was asked for, and hang up."""
        begin = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        self.send_response(206 if begin else 200)
        self.send_header("Content-Range", f"bytes {begin}-{len(DATA) - 1}/{len(DATA)}")
        self.send_header("Content-Length", str(len(DATA) - begin))
        self.end_headers()
        self.wfile.write(DATA[begin : begin + amount])
        self.close_connection = True
        return True

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def web() -> Iterator[Web]:
    """Start a server for one test."""

    class Ours(Handler):
        """One server's own."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ours)
    Ours.web = Web(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield Ours.web
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass
class Volume:
    """A volume, what was said, and how long nobody slept."""

    root: Path
    said: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    def fetch(self, *items: Item) -> None:
        Fetcher(self.root, opener(None), self.said.append, self.slept.append).all(items)

    def left(self) -> list[str]:
        """List what is beside the files: what a try left for the next one."""
        return [str(path.relative_to(self.root)) for path in self.root.rglob("*") if ".gpu-runtime/" in str(path)]


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    """Give an empty volume."""
    (tmp_path / "volume").mkdir()
    return Volume(tmp_path / "volume")


def test_files_are_there_with_their_digest(web: Web, volume: Volume) -> None:
    """Each file is at its path, and nothing else is left."""
    volume.fetch(Item(web.url(), SHA, "a"), Item(web.url(), SHA, "deep/er/b"))

    assert (volume.root / "a").read_bytes() == (volume.root / "deep/er/b").read_bytes() == DATA
    assert volume.left() == []


def test_what_is_there_is_not_asked_for_again(web: Web, volume: Volume) -> None:
    """A second run reads what it has and asks nobody."""
    volume.fetch(Item(web.url(), SHA, "a"))
    volume.fetch(Item(web.url(), SHA, "a"))

    assert len(web.ranges) == 1
    assert volume.said[-1] == "a: is there already"


def test_a_connection_that_is_cut_goes_on(web: Web, volume: Volume) -> None:
    """After each cut the rest is asked for, from the byte where it stopped."""
    web.behave = lambda handler, nth: nth <= 3 and handler.cut(1 << 20)
    volume.fetch(Item(web.url(), SHA, "a"))

    assert (volume.root / "a").read_bytes() == DATA
    assert web.ranges == ["", *(f"bytes={n << 20}-" for n in (1, 2, 3))]


def test_cuts_without_end_are_no_failure_while_bytes_come(web: Web, volume: Volume) -> None:
    """More cuts than tries are borne as long as each brings something."""
    web.behave = lambda handler, _nth: handler.cut(1 << 19)
    volume.fetch(Item(web.url(), SHA, "a"))

    assert len(web.ranges) == 10 > fetch.TRIES


def test_a_server_that_is_away_is_tried_some_times(web: Web, volume: Volume) -> None:
    """The server's own trouble passes; where it does not, the last answer is told."""
    web.behave = lambda handler, nth: nth < 3 and handler.only(503)
    volume.fetch(Item(web.url(), SHA, "a"))
    web.behave = lambda handler, _nth: handler.only(503)
    with pytest.raises(PrepareError, match=rf"answers 503 Service Unavailable, {fetch.TRIES} times in a row"):
        volume.fetch(Item(web.url(), SHA, "b"))

    assert volume.slept == sorted(volume.slept[:2]) + sorted(volume.slept[2:])
    assert len(web.ranges) == 3 + fetch.TRIES


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_is_final(web: Web, volume: Volume, status: int) -> None:
    """What is not there is not asked for twice, and the address is told without what may be a secret in it."""
    web.behave = lambda handler, _nth: handler.only(status)
    with pytest.raises(PrepareError, match=f"127.0.0.1:[0-9]+/data answers {status} ") as refused:
        volume.fetch(Item(web.url(), SHA, "a"))

    assert len(web.ranges) == 1
    assert "hidden" not in str(refused.value)


def test_a_wrong_digest_is_refused(web: Web, volume: Volume) -> None:
    """Both digests are told, and nothing of the file stays."""
    with pytest.raises(PrepareError, match=f"has sha256 {SHA}, but {'0' * 64} is wanted for a"):
        volume.fetch(Item(web.url(), "0" * 64, "a"))

    assert not (volume.root / "a").exists()
    assert [path for path in volume.left() if "parts/" in path] == []


def test_what_was_left_of_another_file_is_thrown_away(web: Web, volume: Volume) -> None:
    """A part that is not the beginning of what is wanted costs one more download, and no failure."""
    part = volume.root / f".gpu-runtime/parts/{SHA}"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 1000)
    volume.fetch(Item(web.url(), SHA, "a"))

    assert (volume.root / "a").read_bytes() == DATA
    assert web.ranges == ["bytes=1000-", ""]


def test_a_part_that_is_whole_is_taken(web: Web, volume: Volume) -> None:
    """A run that ended between the last byte and the rename has nothing to download."""
    part = volume.root / f".gpu-runtime/parts/{SHA}"
    part.parent.mkdir(parents=True)
    part.write_bytes(DATA)
    volume.fetch(Item(web.url(), SHA, "a"))

    assert (volume.root / "a").read_bytes() == DATA


def test_a_server_without_ranges_begins_anew(web: Web, volume: Volume) -> None:
    """A whole answer to a question for the rest replaces what was there."""

    def behave(handler: Handler, nth: int) -> bool:
        if nth == 1:
            return handler.cut(1 << 20)
        del handler.headers["Range"]
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(DATA)))
        handler.end_headers()
        handler.wfile.write(DATA)
        return True

    web.behave = behave
    volume.fetch(Item(web.url(), SHA, "a"))

    assert (volume.root / "a").read_bytes() == DATA


def test_redirects_are_followed(web: Web, volume: Volume) -> None:
    """Another place may have the file; the question for the rest goes there as well."""

    def behave(handler: Handler, nth: int) -> bool:
        if handler.path == "/data":
            return handler.only(302, Location="/elsewhere")
        return nth == 2 and handler.cut(1 << 20)

    web.behave = behave
    volume.fetch(Item(web.url("/data"), SHA, "a"))

    assert (volume.root / "a").read_bytes() == DATA
    assert web.ranges == ["", "", f"bytes={1 << 20}-", f"bytes={1 << 20}-"]


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/a", "data:,x"])
def test_a_redirect_leads_to_http_alone(web: Web, volume: Volume, target: str) -> None:
    """A server cannot have the job read something else than the web."""
    web.behave = lambda handler, _nth: handler.only(302, Location=target)
    with pytest.raises(PrepareError, match=r"leads to|answers 302"):
        volume.fetch(Item(web.url(), SHA, "a"))


def test_a_redirect_in_a_circle_ends(web: Web, volume: Volume) -> None:
    """A server that sends everybody on for ever is refused."""
    web.behave = lambda handler, _nth: handler.only(302, Location=f"/{len(web.ranges)}")
    with pytest.raises(PrepareError, match="answers 302"):
        volume.fetch(Item(web.url(), SHA, "a"))

    assert len(web.ranges) < 10


def test_a_link_in_the_volume_leads_nowhere_else(web: Web, volume: Volume, tmp_path: Path) -> None:
    """A link that a unit made does not have the download write outside the volume."""
    (tmp_path / "elsewhere").mkdir()
    (volume.root / "data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PrepareError, match="leads out of it"):
        volume.fetch(Item(web.url(), SHA, "data/a"))

    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("path", ["../a", "a/../../b"])
def test_a_path_that_escapes_is_refused_here_too(web: Web, volume: Volume, path: str) -> None:
    """The stack file's refusal is not the only one."""
    with pytest.raises(PrepareError):
        volume.fetch(Item(web.url(), SHA, path))


def test_a_folder_is_not_replaced(web: Web, volume: Volume) -> None:
    """A folder at the path of a file stays, and is named."""
    (volume.root / "a").mkdir()
    with pytest.raises(PrepareError, match="'a' is a folder"):
        volume.fetch(Item(web.url(), SHA, "a"))


def test_an_addresss_query_is_its_own() -> None:
    """Presigned addresses carry their right in the query: messages leave it out."""
    assert plain("https://bucket.example.com:8443/a/b?X-Sig=secret") == "https://bucket.example.com:8443/a/b"


def command(web: Web, volume: Path) -> list[str]:
    """Give the program's arguments for one download."""
    items = json.dumps([{"url": web.url(), "sha256": SHA, "path": "a"}])
    return [sys.executable, "-P", "-s", "-m", "prepare", "fetch", items, str(volume)]


def environment() -> dict[str, str]:
    """Give the environment that the image has."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "services"), "PYTHONUNBUFFERED": "1"}


def test_a_program_that_is_killed_goes_on_at_its_next_start(web: Web, volume: Volume) -> None:
    """SIGTERM is told as such, in the last line; the next start asks for the rest alone."""
    half, release = len(DATA) // 2, threading.Event()

    def behave(handler: Handler, nth: int) -> bool:
        if nth > 1:
            return False
        handler.cut(half)
        handler.wfile.flush()
        release.wait(20)
        return True

    web.behave = behave
    with subprocess.Popen(command(web, volume.root), env=environment(), stderr=subprocess.PIPE, text=True) as process:
        part = volume.root / f".gpu-runtime/parts/{SHA}"
        wait_for(lambda: part.exists() and part.stat().st_size >= half - (1 << 20), "half of the file")
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=20)[1]
    release.set()
    there = part.stat().st_size
    done = subprocess.run(command(web, volume.root), env=environment(), check=False)

    assert process.returncode == 1
    assert said.splitlines()[-1].startswith("gpu-runtime: stopped before it was done")
    assert done.returncode == 0
    assert web.ranges == ["", f"bytes={there}-"]
    assert (volume.root / "a").read_bytes() == DATA


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
@pytest.mark.parametrize("told", [True, False], ids=["size told before", "size not told"])
def test_a_volume_that_is_too_small(web: Web, tmp_path: Path, told: bool) -> None:  # noqa: FBT001 - one of two cases
    """A full volume is a reason in words; where the server says the size, nothing is downloaded in vain."""

    def behave(handler: Handler, _nth: int) -> bool:
        if told:
            return False
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(DATA)
        handler.close_connection = True
        return True

    web.behave = behave
    script = f'mount -t tmpfs -o size=2m none {tmp_path} && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", *command(web, tmp_path)]
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=False)

    assert done.returncode == 1
    expected = "are still to come, and the volume has" if told else "the volume is full (2.0 MiB)"
    assert expected in done.stderr.splitlines()[-1]
