"""A storage's browser: real dufs, as its pod runs it, shows files and changes none."""

import hashlib
import io
import json
import os
import secrets
import signal
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from components.browser import END_SECONDS
from tests.images.browsing import MEMORY, MIB, PREFIX, Browser, browsing, sparse, write
from tests.images.containers import Pod
from tools.images import Image


@pytest.fixture
def browser(shown: Pod) -> Iterator[Browser]:
    """A read-only browser of a volume with a file and a folder."""
    write(shown, "readme.txt", b"hello\n")
    write(shown, "sub/numbers.bin", bytes(range(256)) * 16)
    with browsing(shown) as browser:
        yield browser


def test_the_image_is_one_program_that_is_stopped_as_it_wants(dufs_image: Image, dufs_content: Path) -> None:
    """No shell, nothing but dufs; the runtime sends SIGINT, since SIGTERM would be waited out."""
    assert [str(f.relative_to(dufs_content)) for f in dufs_content.rglob("*") if f.is_file()] == ["usr/bin/dufs"]
    with tarfile.open(dufs_image.archive) as archive:
        blobs = [archive.extractfile(member) for member in archive.getmembers() if "blobs" in member.name]
        texts = [data for blob in blobs if blob and (data := blob.read()).startswith(b"{")]
    (config,) = [json.loads(text)["config"] for text in texts if b'"rootfs"' in text]
    assert (config["StopSignal"], config["User"]) == ("SIGINT", "65532:65532")


def test_a_listing_and_its_files(browser: Browser) -> None:
    """A folder is a page for people and JSON for programs; a file is its bytes, with a type and a tag."""
    page = browser.ask("/")
    assert page.status == 200
    assert page.headers["Content-Type"].startswith("text/html")
    assert browser.names("/?json") == ["sub", "readme.txt"]
    file = browser.file("readme.txt")
    assert (file.status, file.body) == (200, b"hello\n")
    assert file.headers["Content-Type"].startswith("text/plain")
    assert browser.ask("/readme.txt", headers={"If-None-Match": file.headers["ETag"]}).status == 304
    assert browser.ask("/none").status == 404


def test_only_below_its_own_path(browser: Browser) -> None:
    """What lies beside the path is refused, health included.

    Not so a name that goes on without a slash: the proxy in front takes whole segments, because dufs does not.
    """
    assert browser.ask("/__dufs__/health").status == 200
    for path in ("/", "/__dufs__/health", "/storage/lab-a", "/storage/lab-a/other/", "/readme.txt"):
        assert browser.site.ask(path).status == 400, path
    assert browser.site.ask(f"{PREFIX}readme.txt").status == 200


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [
        ("bytes=0-3", 206, bytes(range(4))),
        ("bytes=4092-", 206, bytes(range(252, 256))),
        ("bytes=-2", 206, bytes((254, 255))),
        ("bytes=5000-", 416, b""),
    ],
)
def test_ranges(browser: Browser, asked: str, status: int, body: bytes) -> None:
    """A part is those bytes and says where they are; what is not there is said, too."""
    answer = browser.ask("/sub/numbers.bin", headers={"Range": asked})
    assert (answer.status, answer.body) == (status, body)
    assert answer.headers["Content-Range"].endswith("/4096")


def test_search(browser: Browser) -> None:
    """A name is found at any depth, whatever its case."""
    assert browser.names("/?q=NUMB&json") == ["sub/numbers.bin"]
    assert browser.names("/?q=nothing&json") == []


def test_archive(browser: Browser) -> None:
    """A folder comes as one archive with everything in it."""
    answer = browser.ask("/?zip")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="data.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert sorted(archive.namelist()) == ["readme.txt", "sub/numbers.bin"]
        assert archive.read("sub/numbers.bin") == bytes(range(256)) * 16


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "MKCOL", "COPY", "MOVE"])
def test_nothing_is_changed(browser: Browser, method: str) -> None:
    """Whatever a client asks for, the volume is as before."""
    headers = {"X-Update-Range": "append", "Destination": f"{PREFIX}/other.txt"}
    path = "/new" if method == "MKCOL" else "/readme.txt"
    assert browser.ask(path, method, headers, b"changed").status == 403
    assert sorted(file.name for file in browser.volume.iterdir()) == ["readme.txt", "sub"]
    assert (browser.volume / "readme.txt").read_bytes() == b"hello\n"


def test_what_jobs_and_file_systems_keep_is_not_shown(shown: Pod) -> None:
    """The marker of the prepare job and lost+found are in no listing, search or archive, at no depth."""
    for name in (".gpu-runtime/prepared", "lost+found/x", "sub/.gpu-runtime/prepared", "sub/seen"):
        write(shown, name, b"")
    with browsing(shown) as browser:
        assert browser.names("/?json") == ["sub"]
        assert browser.names("/?q=e&json") == ["sub/seen"]
        assert zipfile.ZipFile(io.BytesIO(browser.ask("/?zip").body)).namelist() == ["sub/seen"]


def test_ten_thousand_files_in_a_folder(shown: Pod) -> None:
    """All of them are listed and found, and dufs answers the kubelet meanwhile."""
    for number in range(10_000):
        write(shown, f"file-{number:05}.bin", b"")
    with browsing(shown) as browser:
        asking = threading.Thread(target=lambda: [browser.ask("/?q=file") for _ in range(3)])
        asking.start()
        while asking.is_alive():
            assert browser.healthy
        assert len(browser.names("/?json")) == 10_000
        assert browser.names("/?q=file-00042&json") == ["file-00042.bin"]
        assert browser.memory < MEMORY


def test_a_large_file_in_little_memory(shown: Pod) -> None:
    """Of 20 GB the first GiB streams through a few MiB, ranges far out come at once, and slow readers cost nothing."""
    sparse(shown, "large", 20 * 10**9)
    with browsing(shown) as browser:
        with browser.site.begun(f"{PREFIX}/large") as answer, browser.site.begun(f"{PREFIX}/large"):
            assert answer.headers["Content-Length"] == str(20 * 10**9)
            for _ in range(1024):
                assert len(answer.read(MIB)) == MIB
        assert browser.ask("/large", headers={"Range": "bytes=-4"}).body == b"last"
        far = 19 * 10**9 + secrets.randbelow(9 * 10**8)
        part = browser.ask("/large", headers={"Range": f"bytes={far}-{far + 64 * MIB - 1}"})
        assert (part.status, part.headers["Content-Range"]) == (206, f"bytes {far}-{far + 64 * MIB - 1}/{20 * 10**9}")
        assert part.body == bytes(64 * MIB)
        with browser.site.begun(f"{PREFIX}/?zip") as archive:
            for _ in range(64):
                archive.read(4096)
        assert browser.memory < MEMORY


def test_an_interrupted_download_goes_on(shown: Pod) -> None:
    """The browser is killed in the middle; the next gives the rest by Range and the file's tag: the bytes are equal."""
    content = os.urandom(96 * MIB)  # more than all buffers on the way hold
    write(shown, "file", content)
    got = b""
    with browsing(shown) as browser, browser.site.begun(f"{PREFIX}/file") as answer:
        tag = answer.headers["ETag"]
        got += answer.read(3 * MIB)
        browser.running.signal(signal.SIGKILL)
        assert browser.running.ends_with() != 0
        with suppress(OSError):
            got += answer.read(len(content))
    assert 3 * MIB <= len(got) < len(content)
    with browsing(shown) as browser:
        rest = browser.ask("/file", headers={"Range": f"bytes={len(got)}-", "If-Range": tag})
        assert rest.status == 206
    assert hashlib.sha256(got + rest.body).digest() == hashlib.sha256(content).digest()


def test_sigint_ends_it_at_once(shown: Pod) -> None:
    """A pod that ends needs no patience: who downloads is cut, and goes on with the next one."""
    sparse(shown, "large", 10**9)
    with browsing(shown) as browser, browser.site.begun(f"{PREFIX}/large") as answer:
        answer.read(MIB)
        browser.running.signal(signal.SIGINT)
        assert browser.running.namespaces.wait(END_SECONDS) == 0
