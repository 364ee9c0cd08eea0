"""A browser that takes uploads: files are added, also in parts, and what is there stays."""

import hashlib
import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.images.browsing import MEMORY, MIB, PREFIX, Browser, browsing, write
from tests.images.containers import UID, Pod, until
from tests.spaces import Connection

APPEND = {"X-Update-Range": "append"}


@pytest.fixture
def browser(shown: Pod) -> Iterator[Browser]:
    """A browser that takes uploads, of a volume with a file."""
    write(shown, "kept", b"kept")
    with browsing(shown, upload=True) as browser:
        yield browser


def test_a_file_is_added(browser: Browser) -> None:
    """It belongs to the storage's uid, so that the unit can change it; its folder is made before."""
    assert browser.ask("/new/file", "PUT", body=b"content").status == 404
    assert browser.ask("/new", "MKCOL").status == 201
    assert browser.ask("/new/file", "PUT", body=b"content").status == 201
    file = browser.volume / "new/file"
    assert (file.read_bytes(), file.stat().st_uid) == (b"content", UID)
    assert browser.file("new/file").body == b"content"


def test_what_is_there_stays(browser: Browser) -> None:
    """It is neither replaced nor removed nor renamed."""
    for method in ("PUT", "DELETE", "MOVE"):
        headers = {"Destination": f"{PREFIX}/other"}
        assert browser.ask("/kept", method, headers, b"changed").status == 403
    assert [file.name for file in browser.volume.iterdir()] == ["kept"]
    assert (browser.volume / "kept").read_bytes() == b"kept"


def test_a_large_file_comes_in_parts(browser: Browser) -> None:
    """Each request may be small, and the file is whole."""
    content = os.urandom(5 * MIB)
    assert browser.ask("/file", "PUT", body=content[:MIB]).status == 201
    for start in range(MIB, len(content), MIB):
        assert browser.ask("/file", "PATCH", APPEND, content[start : start + MIB]).status == 204
    assert browser.file("file").body == content


def test_an_interrupted_upload_goes_on(browser: Browser) -> None:
    """What had arrived of a large file is there, its size says how much, and the rest is appended."""
    content = os.urandom(40 * MIB)
    connection = Connection(browser.site.space, browser.site.host, browser.site.port)
    connection.putrequest("PUT", f"{PREFIX}/file")
    connection.putheader("Content-Length", str(len(content)))
    connection.endheaders(content[: 30 * MIB])
    file = browser.volume / "file"
    until(lambda: file.exists() and file.stat().st_size >= 25 * MIB)
    connection.close()
    until(lambda: not browser.holds(file))
    there = int(browser.ask("/file", "HEAD").headers["Content-Length"])
    assert browser.ask("/file", "PATCH", APPEND, content[there:]).status == 204
    assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256(content).digest()


def test_an_upload_takes_little_memory(browser: Browser) -> None:
    """However large, it goes straight to the volume."""
    chunk = bytes(MIB)
    assert browser.ask("/file", "PUT", body=(chunk for _ in range(256))).status == 201
    assert (browser.volume / "file").stat().st_size == 256 * MIB
    assert browser.memory < MEMORY


def test_a_full_volume(shown: Pod) -> None:
    """The upload fails, leaves no half file, and everything else goes on."""
    volume = shown.path("workspace")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=1m,uid={UID}", "full", volume], check=True)
    try:
        write(shown, "kept", b"kept")
        with browsing(shown, upload=True) as browser:
            assert browser.ask("/file", "PUT", body=bytes(2 * MIB)).status == 500
            assert [file.name for file in volume.iterdir()] == ["kept"]
            assert browser.file("kept").body == b"kept"
            assert browser.ask("/small", "PUT", body=b"x").status == 201
    finally:
        subprocess.run(["umount", "--lazy", volume], check=True)


def test_nothing_is_written_beside_the_volume(shown: Pod) -> None:
    """A link out of it, even to a place that is not there yet, takes no upload."""
    for name, target in (("out", "/usr"), ("new", "/usr/new"), ("up", "../written")):
        (shown.path("workspace") / name).symlink_to(target)
    with browsing(shown, upload=True) as browser:
        for path in ("/out/x", "/new", "/up", "/../written", "/%2e%2e/written"):
            assert browser.ask(path, "PUT", body=b"x").status >= 400, path
        assert browser.healthy
    assert not list(shown.folder.rglob("written"))


@pytest.mark.parametrize(
    ("method", "headers"),
    [("PATCH", {"X-Update-Range": "bytes=0-"}), ("COPY", {"Destination": f"{PREFIX}/kept"})],
)
def test_what_dufs_itself_would_overwrite(browser: Browser, method: str, headers: dict[str, str]) -> None:
    """Two methods get around the rule that what is there stays: so the proxy lets neither of them through."""
    assert browser.ask("/new", "PUT", body=b"evil").status == 201
    path = "/kept" if method == "PATCH" else "/new"
    assert browser.ask(path, method, headers, b"evil").status == 204
    assert (browser.volume / "kept").read_bytes() == b"evil"
