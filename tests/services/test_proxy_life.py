"""Changes, ends and deaths while somebody downloads: the real Envoy, and the program that ends it."""

import http.client
import os
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.derive import Authority
from tests.services.proxies import (
    PASSWORD,
    PORT,
    ROOT,
    SECRET,
    STORAGE,
    USER,
    Download,
    Proxy,
    Upstream,
    basic,
    cluster,
    hashed,
    origins,
    proxy,
)
from tests.services.world import Process, holds, python, wait_for
from tools.images.build import part_files
from tools.images.recipes import ENVOY

FILE = f"{ROOT}/big"
CONTENT = os.urandom(1 << 20) * 8


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """Give a server whose file ends only when it may."""
    made = Upstream()
    made.body = CONTENT
    made.may_end.clear()
    yield made
    made.may_end.set()
    made.end()


@pytest.fixture
def asked(upstream: Upstream, tmp_path: Path) -> Iterator[Proxy]:
    """Give a proxy of one's own."""
    with proxy(part_files(ENVOY) / "envoy", tmp_path / "it", upstream.port) as made:
        yield made


def begin(asked: Proxy) -> Download:
    """Begin to download the file."""
    return Download(asked, FILE, len(CONTENT))


def test_a_change_of_routes_cuts_nothing(asked: Proxy, upstream: Upstream) -> None:
    """Storages come and go, passwords change, pods move; who downloads goes on."""
    download = begin(asked)
    asked.routes(*origins(hashed(USER, "another")))
    asked.clusters(cluster("storage", 1), cluster("port", 1))
    wait_for(lambda: asked.status("/x", PORT, headers=basic(password="another")) == 502, "the change is there")
    asked.routes()
    wait_for(lambda: asked.status("/x", PORT, headers=basic(password="another")) == 401, "all routes are gone")

    assert download.finish(upstream) == CONTENT


@pytest.mark.parametrize("text", ["", "{", '{"resources": [{"@type": "type.googleapis.com/none"}]}'])
def test_a_broken_file_changes_nothing(asked: Proxy, upstream: Upstream, text: str) -> None:
    """The last good routes hold."""
    upstream.may_end.set()
    for name in ("routes.json", "clusters.json"):
        new = asked.folder / "routes/.new"
        new.write_text(text)
        new.rename(asked.folder / "routes" / name)

    holds(lambda: asked.status("/x", PORT) == 200, "the last good routes hold")


def test_a_new_certificate_is_served_without_a_cut(asked: Proxy, upstream: Upstream) -> None:
    """Whoever renews it, nobody restarts the proxy."""
    download = begin(asked)
    asked.certify(1)

    def renewed() -> bool:
        try:
            asked.connect(epoch=1).close()
        except ssl.SSLCertVerificationError:
            return False
        return True

    wait_for(renewed, "the new certificate is served")
    with pytest.raises(ssl.SSLCertVerificationError):
        asked.connect(epoch=0)
    assert download.finish(upstream) == CONTENT


def drain(asked: Proxy, seconds: float, grace: float = 0.2) -> Process:
    """Start what the kubelet runs before it ends Envoy."""
    said = [f"--admin={asked.places.admin}", f"--grace={grace}", f"--seconds={seconds}"]
    return python("proxy", *said, output=asked.folder / "drain.log")


def test_an_end_waits_for_downloads(asked: Proxy, upstream: Upstream) -> None:
    """Clients are sent elsewhere at once, those who still come are served, and what is in hand comes to its end."""
    download = begin(asked)
    draining = drain(asked, 60)
    wait_for(lambda: not asked.ready(), "new clients are sent elsewhere")
    told = asked.ask("/x", headers={})
    holds(lambda: draining.popen.poll() is None, "it waits", 1.0)

    assert told.status == 401
    assert told.headers["connection"] == "close"
    assert download.finish(upstream) == CONTENT
    assert draining.popen.wait(10) == 0


def test_an_end_does_not_wait_for_ever(asked: Proxy) -> None:
    """After the time that the stack file grants, what is left is said and cut."""
    download = begin(asked)
    draining = drain(asked, 1)

    assert draining.popen.wait(60) == 1
    assert "1 requests are cut" in draining.text
    download.connection.close()


def test_an_end_without_an_envoy_is_no_reason_to_wait(asked: Proxy) -> None:
    """A pod whose Envoy is gone ends."""
    asked.process.end(signal.SIGKILL)
    Path(asked.places.admin).unlink(missing_ok=True)

    assert drain(asked, 60).popen.wait(10) == 1


def test_a_download_goes_on_after_the_proxys_death(asked: Proxy, upstream: Upstream) -> None:
    """Whoever asks for the rest gets it, of any proxy: bytes are equal."""
    download = begin(asked)
    asked.process.end(signal.SIGKILL)
    with pytest.raises((http.client.IncompleteRead, OSError)):
        download.answer.read()
    upstream.may_end.set()
    asked.start()
    upstream.body = CONTENT[len(download.got) :]
    rest = asked.ask(FILE, headers={**basic(), "Range": f"bytes={len(download.got)}-"})

    assert download.got + rest.body == CONTENT


def test_the_derived_certificate_is_for_every_origin() -> None:
    """One label below the main host, and the main host itself; nothing deeper."""
    made = Authority(SECRET, 0, "test").server("files.example.test", "*.files.example.test")

    assert made == Authority(SECRET, 0, "test").server("files.example.test", "*.files.example.test")
    assert made[1] == Authority(SECRET, 0, "test").server("files.example.test")[1]
    assert STORAGE.endswith(".files.example.test")
    assert PASSWORD not in made[0]
