"""A tenant's index: what it shows, to whom it can be read, and that names are never markup."""

import re
from html.parser import HTMLParser

import pytest
from routes.hosts import Site
from routes.page import STYLE, page
from routes.things import Address
from routes.view import Port, Storage, Tenant
from typing_extensions import override

from tests.conftest import Golden

SITE = Site("files.test", 443)
HERE = (Address("10.0.0.5", 5000),)
TENANT = Tenant(
    "lab-a",
    "lab-a",
    "",
    (Storage("dataset", "200Gi", None, HERE), Storage("inbox", "50Gi", 2**30, ())),
    (Port("trainer", "lab", HERE), Port("trainer", "tb", ())),
    (("dataset", "trainer", "/data"), ("home", "trainer", "/home/alice")),
)


class Reader(HTMLParser):
    """Notes the elements of a page with their attributes, and demands that each is closed."""

    EMPTY = frozenset({"meta", "link", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of every element of that name."""
        return [attributes for name, attributes in self.elements if name == tag]


def test_index(golden: Golden) -> None:
    """The page as people get it."""
    golden("index.yaml", page(TENANT, SITE).splitlines())


def test_a_tenant_without_anything_is_told_so() -> None:
    """There is a page as soon as somebody may look at it."""
    assert "No storage of this tenant has a browser." in page(Tenant("lab-a", "lab-a", ""), SITE)


def test_links_lead_to_the_origins() -> None:
    """Each storage and port is one click away, at the port where clients find the proxy."""
    links = [link["href"] for link in Reader(page(TENANT, Site("files.test", 8443))).all("a")]
    assert links == [
        "https://dataset--lab-a.files.test:8443/storage/lab-a/dataset/",
        "https://inbox--lab-a.files.test:8443/storage/lab-a/inbox/",
        "https://lab--trainer--lab-a.files.test:8443/",
        "https://tb--trainer--lab-a.files.test:8443/",
    ]


def test_everybody_can_read_it() -> None:
    """A language, a title, one main heading, captions, heads with a scope, a width that phones have, and no script."""
    text = page(TENANT, SITE)
    read = Reader(text)
    assert read.all("html") == [{"lang": "en"}]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in read.all("meta")
    assert (len(read.all("title")), len(read.all("h1")), len(read.all("main"))) == (1, 1, 1)
    assert len(read.all("caption")) == len(read.all("table")) == 3
    assert all(head["scope"] in ("col", "row") for head in read.all("th"))
    assert not {"script", "iframe", "form", "img", "base"} & {name for name, _ in read.elements}
    assert not any(key.startswith("on") or key == "style" for _, said in read.elements for key in said)


def test_colours_are_the_readers() -> None:
    """The page sets no colour of text or ground, so that its contrast is that of the reader's own light or dark."""
    assert "color-scheme:light dark" in STYLE
    assert not re.search(r"(^|[;{])(color|background):", STYLE, re.MULTILINE)


HOSTILE = ['"><script>alert(1)</script>', "'onload=x", "&lt;", "$(reboot)", "a b;c", "%CEL(x)%", "\u202ecod"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_never_markup(name: str) -> None:
    """Whatever a name, size or path holds is shown as it is: the page has the same elements as any other."""
    tenant = Tenant(
        name, name, "", (Storage(name, name, 1, HERE),), (Port(name, name, HERE),), ((name, name, f"/{name}"),)
    )
    plain = Tenant("n", "n", "", (Storage("n", "n", 1, HERE),), (Port("n", "n", HERE),), (("n", "n", "/n"),))
    shapes = [
        [(tag, sorted(said)) for tag, said in Reader(page(one, SITE)).elements if tag != "a"] for one in (tenant, plain)
    ]
    assert shapes[0] == shapes[1]


def test_commands_are_safe_to_paste() -> None:
    """A path that a shell would read otherwise is quoted."""
    assert "&#x27;trainer.lab-a:/my $(data)/&#x27;" in page(
        TENANT._replace(mounts=(("dataset", "trainer", "/my $(data)"),)), SITE
    )
