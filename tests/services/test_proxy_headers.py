"""What keeps a tenant's files, and a unit's pages, from acting with the password of who looks at them."""

import json
from collections.abc import Iterator

import pytest

from components.proxy_rules import FILES_CSP, PAGES_CSP, PLAIN_CSP
from tests.services.proxies import (
    HOST,
    PASSWORD,
    PORT,
    ROOT,
    STORAGE,
    Answer,
    Proxy,
    Upstream,
    basic,
    hashed,
    origins,
    proxy,
    virtual_host,
)
from tests.services.world import wait_for
from tools.images.build import part_files
from tools.images.recipes import ENVOY

FILE = f"{ROOT}/a.html"
HTML = ("Content-Type", "text/html; charset=utf-8")
NAMED = ("Content-Disposition", 'inline; filename="a.html"')


@pytest.fixture(scope="module")
def asked(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Give a proxy for the tests that only ask."""
    with proxy(part_files(ENVOY) / "envoy", tmp_path_factory.mktemp("proxy") / "it", upstream.port) as made:
        yield made


def answered(
    asked: Proxy, upstream: Upstream, *headers: tuple[str, str], status: int = 200, host: str = STORAGE
) -> Answer:
    """Ask for a file to which the server behind says *headers* and *status*."""
    said, upstream.headers, upstream.status = upstream.headers, list(headers), status
    try:
        return asked.ask(FILE, host)
    finally:
        upstream.headers, upstream.status = said, 200


@pytest.mark.parametrize(
    ("headers", "status", "policy"),
    [
        ([HTML, NAMED], 200, FILES_CSP),
        ([HTML, NAMED], 206, FILES_CSP),
        ([("Content-Type", "image/svg+xml"), NAMED], 200, FILES_CSP),
        ([("Content-Type", "multipart/byteranges; boundary=x")], 206, FILES_CSP),
        ([HTML], 404, FILES_CSP),
        ([], 200, FILES_CSP),
        ([HTML], 200, PAGES_CSP),
        ([HTML, ("X-Content-Type-Options", "nosniff")], 200, PAGES_CSP),
    ],
)
def test_what_a_tenant_wrote_runs_nothing(
    asked: Proxy, upstream: Upstream, headers: list[tuple[str, str]], status: int, policy: str
) -> None:
    """A file is sandboxed; only dufs' own pages, which name no file, run dufs' own script."""
    answer = answered(asked, upstream, *headers, status=status)

    assert answer.headers.get_all("content-security-policy") == [policy]
    assert answer.headers.get_all("x-content-type-options") == ["nosniff"]


def test_a_sandbox_has_no_exits() -> None:
    """No script, no form, no window, no origin."""
    assert FILES_CSP.startswith("sandbox; default-src 'none';")
    assert "allow-" not in FILES_CSP
    assert "unsafe-eval" not in PAGES_CSP
    assert "script-src 'self';" in PAGES_CSP


def test_a_cached_file_stays_sandboxed(asked: Proxy, upstream: Upstream) -> None:
    """A 304 brings its headers into the cache: it has those of the file."""
    assert answered(asked, upstream, status=304).headers["content-security-policy"] == FILES_CSP


def test_the_servers_own_policy_cannot_widen_ours(asked: Proxy, upstream: Upstream) -> None:
    """On the origin of a storage there is one policy, and it is the proxy's."""
    answer = answered(asked, upstream, HTML, NAMED, ("Content-Security-Policy", "script-src *"), ("Set-Cookie", "a=b"))

    assert answer.headers.get_all("content-security-policy") == [FILES_CSP]
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", [HOST, STORAGE, PORT, f"lab-a.{HOST}", "localhost"])
def test_every_answer_says_to_come_by_tls(asked: Proxy, host: str) -> None:
    """The proxy's own answers, too; and no page of a storage tells another site where one came from."""
    answer = asked.ask("/x", STORAGE, headers={"Host": host})

    assert answer.headers["strict-transport-security"] == "max-age=31536000"
    assert answer.headers["server"] == "gpu-runtime"
    assert answer.headers["referrer-policy"] == ("same-origin" if host == PORT else "no-referrer")


def test_an_index_has_a_policy_unless_it_says_one(asked: Proxy) -> None:
    """The page is an answer of Envoy itself, and keeps its type."""
    index = f"lab-a.{HOST}"
    said = {"match": {"path": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "<h1>hello</h1>"}}}
    kind = {"header": {"key": "content-type", "value": HTML[1]}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    page = {**said, "response_headers_to_add": [kind]}
    asked.routes(*origins(hashed("lab-a", "x")), virtual_host(index, [page], hashed("lab-a", "x")))
    wait_for(lambda: asked.status("/", index, headers=basic(password="x")) == 200, "the page is there")
    answer = asked.ask("/", index, headers=basic(password="x"))
    asked.routes(*origins(hashed("lab-a", PASSWORD)))
    wait_for(lambda: asked.status(FILE) == 200, "all is as before")

    assert (answer.body, answer.headers["content-type"]) == (b"<h1>hello</h1>", HTML[1])
    assert answer.headers["content-security-policy"] == PLAIN_CSP


@pytest.mark.parametrize(
    ("said", "got"),
    [
        ("a=b; Domain=files.example.test; Path=/", "a=b; Path=/"),
        ("a=b; Path=/;domain = .example.test ;Secure", "a=b; Path=/;Secure"),
        ("a=b; HttpOnly; DOMAIN=test", "a=b; HttpOnly"),
        ("__Host-a=b; Secure; Path=/", "__Host-a=b; Secure; Path=/"),
        ("domain=1; Path=/", "domain=1; Path=/"),
    ],
)
def test_cookies_of_a_unit_stay_at_its_origin(asked: Proxy, upstream: Upstream, said: str, got: str) -> None:
    """No unit sets a cookie that another's origin would be sent."""
    answer = answered(asked, upstream, ("Set-Cookie", said), ("Set-Cookie", "second=1"), host=PORT)

    assert answer.headers.get_all("set-cookie") == [got, "second=1"]


@pytest.mark.parametrize(
    ("said", "got"),
    [
        ({}, {"content-security-policy": "frame-ancestors 'self'", "cross-origin-resource-policy": "same-origin"}),
        ({"Content-Security-Policy": "frame-ancestors *"}, {"content-security-policy": "frame-ancestors *"}),
        ({"X-Frame-Options": "DENY"}, {"x-frame-options": "DENY", "content-security-policy": None}),
        (
            {"Cross-Origin-Resource-Policy": "cross-origin"},
            {"cross-origin-resource-policy": "cross-origin", "content-security-policy": "frame-ancestors 'self'"},
        ),
    ],
)
def test_a_units_own_policy_passes(
    asked: Proxy, upstream: Upstream, said: dict[str, str], got: dict[str, str | None]
) -> None:
    """A notebook server knows what its pages need; where it says nothing, no other origin frames or loads them."""
    headers = answered(asked, upstream, *said.items(), host=PORT).headers

    assert {name: headers.get(name) for name in got} == got
    assert all(len(headers.get_all(name, [])) <= 1 for name in got)


@pytest.mark.parametrize("host", [STORAGE, PORT])
@pytest.mark.parametrize(
    ("method", "origin", "more", "status"),
    [
        ("POST", "https://evil.test", {}, 403),
        ("PUT", "null", {}, 403),
        ("DELETE", f"https://http--other--lab-b.{HOST}", {}, 403),
        ("POST", "http://{host}", {}, 403),
        ("GET", "https://evil.test", {"Connection": "Upgrade", "Upgrade": "websocket"}, 403),
        ("POST", "https://{host}", {}, 200),
        ("POST", "https://{host}:443", {}, 200),
        ("POST", None, {}, 200),
        ("GET", "https://evil.test", {}, 200),
    ],
)
def test_no_other_origin_acts_for_its_visitor(
    asked: Proxy, host: str, method: str, origin: str | None, more: dict[str, str], status: int
) -> None:
    """A browser sends a password that it knows along with anybody's form; the proxy looks whose form it is."""
    said = {"Origin": origin.format(host=host)} if origin else {}

    assert asked.status(FILE, host, method=method, headers={**basic(), **said, **more}) == status


@pytest.mark.parametrize(("host", "passed"), [(STORAGE, None), (PORT, "bytes=0-1,3-4")])
def test_of_a_storage_one_range_at_a_time_is_given(asked: Proxy, host: str, passed: str | None) -> None:
    """Its server reads several ranges into its memory at once, and a client may ask for the whole file many times."""
    several = json.loads(asked.ask(FILE, host, headers={**basic(), "Range": "bytes=0-1,3-4"}).body)
    one = json.loads(asked.ask(FILE, host, headers={**basic(), "Range": "bytes=5-"}).body)

    assert dict(several["headers"]).get("range") == passed
    assert dict(one["headers"])["range"] == "bytes=5-"
