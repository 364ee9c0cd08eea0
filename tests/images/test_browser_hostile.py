"""What a tenant may have put into a volume, and what a client may ask for: nothing of it reaches beyond the volume."""

import os
import zipfile
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

import pytest

from components.browser import LIMITS
from components.model import bytes_of
from tests.images.browsing import MIB, PREFIX, browsing, owned, sparse, write
from tests.images.containers import Pod

NAMES = (
    "<script>alert(1)<",
    '"><img src=x onerror=alert(1)>',
    "'; alert(1); '",
    "&lt;b&gt;",
    "line\nbreak",
    "carriage\rreturn: x",
    "tab\there",
    "--help",
    "-",
    "%2f",
    "%2e%2e%2fetc",
    "..%00",
    "back\\slash",
    " leading and trailing ",
    "...",
    "#fragment?query=1&zip",
    "\u202egnp.exe",
    "\U0001f980 crab",
    "n" * 255,
)


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_is_only_a_name(shown: Pod, name: str) -> None:
    """It is listed as it is, escaped in pages, fetched by its quoted form, and splits no header."""
    write(shown, f"in/{name}", name.encode())
    with browsing(shown) as browser:
        assert browser.names("/in/?json") == [name]
        file = browser.ask(f"/in/{quote(name, safe='')}")
        assert (file.status, file.body) == (200, name.encode())
        assert set(map(str.lower, file.headers)) <= HEADERS
        for page in ("/in/", "/in/?noscript", "/in/?simple"):
            assert b"<script>alert" not in (body := browser.ask(page).body)
            assert b"<img" not in body
        assert zipfile.ZipFile(BytesIO(browser.ask("/in/?zip").body)).infolist()


HEADERS = frozenset(
    {
        "accept-ranges",
        "cache-control",
        "content-disposition",
        "content-length",
        "content-type",
        "date",
        "etag",
        "last-modified",
    }
)
"""All that dufs says of a file: a name with a line break adds none."""


@pytest.mark.parametrize("target", ["/usr/bin/dufs", "../usr/bin/dufs", "/data/../usr", "..", "/", "/proc/1/environ"])
def test_a_link_out_of_the_volume_leads_nowhere(shown: Pod, target: str) -> None:
    """It is in no listing, search or archive, and asking for it, or through it, finds nothing."""
    owned_link(shown, "link", target)
    write(shown, "file", b"")
    with browsing(shown) as browser:
        assert browser.names("/?json") == ["file"]
        assert browser.names("/?q=i&json") == ["file"]
        assert zipfile.ZipFile(BytesIO(browser.ask("/?zip").body)).namelist() == ["file"]
        for path in ("/link", "/link/", "/link/bin/dufs", "/link/usr/bin/dufs"):
            assert browser.ask(path).status == 404


def test_links_within_the_volume_and_odd_files(shown: Pod) -> None:
    """A link to a file of the volume is that file; one to itself, and a pipe that nobody writes to, hold up nobody."""
    write(shown, "file", b"content")
    owned_link(shown, "link", "file")
    owned_link(shown, "circle", "circle")
    os.mkfifo(shown.path("workspace") / "pipe")
    with browsing(shown) as browser:
        assert browser.ask("/link").body == b"content"
        assert browser.ask("/circle").status == 404
        assert browser.ask("/pipe").status == 404
        assert browser.healthy


@pytest.mark.parametrize(
    "path",
    [
        "/../../../usr/bin/dufs",
        "/in/../../usr/bin/dufs",
        "/..%2f..%2fusr/bin/dufs",
        "/%2e%2e/%2e%2e/usr/bin/dufs",
        "/..%5cusr",
        "//usr/bin/dufs",
        "/%00",
        "/file%00.txt",
        "/%ff%fe",
        "/" + "a/" * 3000,
    ],
)
def test_no_path_leads_out_of_the_volume(shown: Pod, path: str) -> None:
    """However it is written, it is refused or not there, and dufs serves on."""
    write(shown, "in/file", b"")
    with browsing(shown) as browser:
        assert browser.ask(path).status in (400, 404)
        assert browser.healthy


def test_a_name_that_is_no_text_stays_out_of_reach(shown: Pod) -> None:
    """It can be fetched by ssh alone; beside it, listing, search and archive work."""
    folder = os.fsencode(shown.path("workspace"))
    Path(os.fsdecode(folder + b"/bad\xff\xfe.bin")).write_bytes(b"")
    write(shown, "good", b"")
    with browsing(shown) as browser:
        assert sorted(browser.names("/?json")) == ["", "good"]
        assert browser.ask("/bad%ff%fe.bin").status == 400
        assert zipfile.ZipFile(BytesIO(browser.ask("/?zip").body)).namelist() == ["good"]


def test_what_a_tenant_wrote_says_so(shown: Pod) -> None:
    """Each file has a Content-Disposition, in whatever way it is asked for; no page of dufs has one.

    By that the proxy tells a tenant's HTML, which it locks up, from a listing, which needs its script.
    """
    write(shown, "evil.html", b"<script>alert(1)</script>")
    write(shown, "folder/index.html", b"<script>alert(1)</script>")
    with browsing(shown) as browser:
        for path in ("/evil.html", "/evil.html/", "/folder/index.html", "/evil.html?x", "/evil.html?noscript"):
            assert browser.ask(path).headers["Content-Disposition"].startswith("inline; filename="), path
        for path in ("/", "/folder", "/folder/", "/?q=evil", "/?noscript", "/?simple", "/evil.html?view"):
            answer = browser.ask(path)
            assert answer.headers["Content-Disposition"] is None, path
            assert b"<script>alert" not in answer.body


def test_many_slow_readers(shown: Pod) -> None:
    """Two hundred clients that read nothing take less than half of the pod's memory, and nobody else's place."""
    sparse(shown, "large", 10**9)
    with browsing(shown) as browser, ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(browser.site.begun(f"{PREFIX}/large"))
        assert len(browser.ask("/large", headers={"Range": f"bytes=0-{MIB - 1}"}).body) == MIB
        assert browser.memory < bytes_of(LIMITS["memory"]) / 2


def owned_link(pod: Pod, name: str, target: str) -> None:
    """Put a link into the volume."""
    link = pod.path("workspace") / name
    link.symlink_to(target)
    owned(link)
