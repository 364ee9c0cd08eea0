"""What people see: a real browser before real dufs behind the real Envoy, with what a tenant may have put there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.images.test_browser_hostile import NAMES
from tests.services.chromium import OPENS, Chromium, chromium
from tests.services.cluster import PASSWORD
from tests.services.proxies import HOST, Upstream
from tests.services.test_browser_behind_proxy import Shown, put
from tests.services.world import wait_for

LISTED = "return [...document.querySelectorAll('td.cell-name a')].map(a => a.textContent)"
FETCHED = """
const links = [...document.querySelectorAll('td.cell-name a')];
return Promise.all(links.map(async link => (await fetch(link.href)).text()));
"""
RUNS = "<body>still<script>document.body.textContent = document.title = 'ran'</script></body>"
READS = """
const asked = async options => {
  try { const answer = await fetch(arguments[0], options); return answer.type + ' ' + await answer.text(); }
  catch (error) { return error.name; }
};
const frame = document.createElement('iframe');
frame.src = arguments[0];
const loaded = new Promise(next => frame.addEventListener('load', next));
document.body.append(frame);
await loaded;
let framed;
try { framed = frame.contentDocument && frame.contentDocument.body.textContent; } catch (error) { framed = error.name; }
return [await asked({credentials: 'include'}), await asked({credentials: 'include', mode: 'no-cors'}), framed];
"""
"""Tries to read an address, in each way that a page has, and tells what it got."""


@pytest.fixture(scope="module")
def port() -> Iterator[Upstream]:
    """Give a program of a unit, which may send its people whatever it likes."""
    made = Upstream()
    made.headers, made.body = [("Content-Type", "text/html")], b"<!doctype html><body>a unit's page</body>"
    yield made
    made.end()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, port: Upstream) -> Iterator[Shown]:
    """Give two storages and a unit's port behind a proxy."""
    made = Shown(tmp_path_factory.mktemp("shown"), port.port)
    yield made
    made.end()


@pytest.fixture(scope="module")
def person(shown: Shown, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """Give a browser that has signed in at every origin of the tenant."""
    with chromium(tmp_path_factory.mktemp("profile"), HOST, shown.proxy.places.https) as browser:
        for label in ("dataset--lab-a", "inbox--lab-a", "lab--trainer--lab-a"):
            browser.get(f"https://alice:{PASSWORD}@{label}.{HOST}/")
        yield browser


def address(storage: str, path: str = "") -> str:
    """Give an address of a storage."""
    return f"https://{storage}--lab-a.{HOST}/storage/lab-a/{storage}/{path}"


def test_hostile_names_are_text(shown: Shown, person: Chromium) -> None:
    """Each is listed as it is, in an element of its own, and leads to its own file; none becomes a part of the page."""
    (shown.folder / "dataset/names").mkdir()
    for name in NAMES:
        put(shown, "dataset", f"names/{name}", name.encode())
    person.get(address("dataset", "names/"))
    assert sorted(person.run(LISTED)) == sorted(name.replace("\r", "\n") for name in NAMES)  # as HTML reads it
    assert person.run("return document.querySelectorAll('img, td script, td b').length") == 0
    refused = {""}  # the proxy takes no backslash in a path, in whatever form, and loses no word over it
    assert set(person.run(FETCHED)) - refused == set(NAMES) - {"back\\slash"}


@pytest.mark.parametrize("name", ["evil.html", "evil.html/", "evil.svg", "evil.xhtml"])
def test_a_page_of_a_volume_runs_nothing(shown: Shown, person: Chromium, name: str) -> None:
    """It is shown, locked up: neither with the rights of its origin nor without."""
    pages = {
        "evil.html": RUNS,
        "evil.svg": '<svg xmlns="http://www.w3.org/2000/svg"><text>still</text><script>document.title="ran"</script></svg>',
        "evil.xhtml": f'<html xmlns="http://www.w3.org/1999/xhtml">{RUNS}</html>',
    }
    put(shown, "dataset", name.rstrip("/"), pages[name.rstrip("/")].encode())
    person.get(address("dataset", name))
    assert "still" in person.run("return document.documentElement.textContent")
    assert person.run("return document.title") != "ran"


def test_a_page_that_may_run_reads_no_other_origin(shown: Shown, person: Chromium) -> None:
    """A unit's page has its own origin: with its visitor's passwords it still gets nothing of a storage."""
    put(shown, "dataset", "secret", b"of the storage alone")
    person.get(address("dataset"))
    assert person.run("return (await fetch('secret')).text()") == "of the storage alone"
    person.get(f"https://lab--trainer--lab-a.{HOST}/")
    assert person.run("return document.body.textContent") == "a unit's page"
    got = person.run(READS, address("dataset", "secret"))
    assert "of the storage" not in str(got)
    assert got[:2] == ["TypeError", "TypeError"]


def test_a_page_that_may_run_changes_nothing_elsewhere(shown: Shown, person: Chromium) -> None:
    """It can have its visitor ask another origin to write; the proxy refuses what a page there did not ask."""
    person.get(f"https://lab--trainer--lab-a.{HOST}/")
    for method, mode in (("PUT", "cors"), ("POST", "no-cors")):
        said = {"method": method, "mode": mode, "credentials": "include", "body": "forged"}
        person.run(
            "try { await fetch(arguments[0], arguments[1]) } catch (error) { }", address("inbox", "forged"), said
        )
    assert not (shown.folder / "inbox/forged").exists()
    person.get(address("inbox"))
    assert person.run("return (await fetch('forged', {method: 'PUT', body: 'own'})).status") == 201


def test_a_file_is_chosen_and_arrives(shown: Shown, person: Chromium, tmp_path: Path) -> None:
    """The page's own button for uploads works under the proxy's policies."""
    file = tmp_path / "chosen & <named>.bin"
    file.write_bytes(bytes(range(256)) * 1000)
    person.get(address("inbox"))
    person.choose("#file", file)
    there = shown.folder / "inbox" / file.name
    wait_for(lambda: there.exists() and there.stat().st_size == file.stat().st_size, "the upload")
    assert there.read_bytes() == file.read_bytes()


def test_a_page_of_a_unit_opens_a_socket(person: Chromium) -> None:
    """A browser that loads pages by HTTP/2 opens WebSockets in the form that programs know, with its password."""
    person.get(f"https://lab--trainer--lab-a.{HOST}/")
    assert person.run("return performance.getEntriesByType('navigation')[0].nextHopProtocol") == "h2"
    assert person.run(OPENS) == "open"
