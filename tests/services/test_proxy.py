"""What the proxy promises its clients, and what stands behind it, against the real Envoy."""

import json
from collections.abc import Iterator

import pytest

from components.proxy_answers import WORDS
from tests.services.proxies import (
    HOST,
    PASSWORD,
    PORT,
    ROOT,
    STORAGE,
    USER,
    Answer,
    Proxy,
    Upstream,
    basic,
    cluster,
    curl,
    hashed,
    origins,
    plain,
    proxy,
)
from tests.services.world import free_port, wait_for
from tools.images.build import part_files
from tools.images.recipes import ENVOY

FILE = f"{ROOT}/a"


@pytest.fixture(scope="module")
def asked(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Give a proxy for the tests that only ask."""
    with proxy(part_files(ENVOY) / "envoy", tmp_path_factory.mktemp("proxy") / "it", upstream.port) as made:
        yield made


def heard(answer: Answer) -> dict[str, str]:
    """Give the headers that came upstream."""
    assert answer.status == 200
    return {name.lower(): value for name, value in json.loads(answer.body)["headers"]}


@pytest.mark.parametrize("path", ["/A%20b?q=%2F&zip", "/a;b=1/", "/%C3%A9?a=//..", "/~x/@:+$,", ""])
def test_path_and_query_come_unchanged(asked: Proxy, path: str) -> None:
    """What stands behind the proxy reads the very bytes that the client sent."""
    assert json.loads(asked.ask(f"{ROOT}{path}").body)["path"] == f"{ROOT}{path}"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_every_method_passes(asked: Proxy, method: str) -> None:
    """WebDAV and uploads are for the browser to judge."""
    said = json.loads(asked.ask(FILE, method=method, body=b"content").body)

    assert (said["method"], said["body"]) == (method, "content")


def test_forwarded_headers_are_the_connections_own(asked: Proxy) -> None:
    """What a client says of itself in the proxy's name is dropped."""
    claims = {
        "X-Forwarded-For": "10.9.9.9",
        "X-Forwarded-Proto": "http",
        "X-Forwarded-Host": "evil.test",
        "X-Forwarded-User": "root",
        "X-Forwarded-Port": "1",
        "Forwarded": "for=10.9.9.9",
        "X-Real-IP": "10.9.9.9",
        "X-Envoy-Retry-On": "5xx",
        "X-Original-URL": "/admin",
    }
    got = heard(asked.ask(FILE, PORT, headers={**basic(), **claims}))

    forwarded = {name: value for name, value in got.items() if "forward" in name}
    assert forwarded == {
        "x-forwarded-for": "127.0.0.2",
        "x-forwarded-proto": "https",
        "x-forwarded-host": PORT,
        "x-forwarded-user": USER,
    }
    assert not {"x-real-ip", "x-original-url"} & got.keys()
    assert not [name for name in got if name.startswith("x-envoy")]


def test_hop_by_hop_headers_end_at_the_proxy(asked: Proxy) -> None:
    """They speak of one connection, which is not the next."""
    hops = {"Keep-Alive": "5", "Proxy-Connection": "x", "TE": "gzip", "Connection": "x-mine", "X-Mine": "1"}

    assert (
        not {"keep-alive", "proxy-connection", "te", "x-mine"} & heard(asked.ask(FILE, headers=basic() | hops)).keys()
    )


def test_no_password_comes_upstream(asked: Proxy) -> None:
    """What stands behind the proxy is told who it is, and nothing to be him with."""
    assert "authorization" not in heard(asked.ask(FILE))
    assert heard(asked.ask(FILE))["x-forwarded-user"] == USER


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic(password="wrong"),
        basic(user="lab-b"),
        basic(user="nobody", password=""),
        {"Authorization": "Bearer x"},
        {"Authorization": "Basic !"},
        {"X-Forwarded-User": USER},
    ],
    ids=["none", "wrong password", "wrong user", "nobody", "other scheme", "no base64", "claimed"],
)
@pytest.mark.parametrize("path", [FILE, "/", f"{ROOT}2/a", "/storage/lab-a/other/"])
def test_nothing_is_told_without_a_password(asked: Proxy, headers: dict[str, str], path: str) -> None:
    """The first byte of any path asks for a password."""
    assert asked.ask(path, headers=headers).body == b"401 sign in\n"
    assert asked.ask(path, headers=headers).status == 401


@pytest.mark.parametrize("upgrade", ["", "websocket", "WebSocket", "foo", "websockeX", "h2c", "foo, websocket"])
def test_not_yours_is_not_there(asked: Proxy, upgrade: str) -> None:
    """A host that exists and one that does not answer a stranger, and a neighbour, in the same words and headers.

    Envoy itself would refuse an upgrade before the password is asked for, and by what the route of a host says.
    """
    more = {"Connection": "Upgrade", "Upgrade": upgrade} if upgrade else {}
    told: tuple[dict[str, str], ...] = (basic(password="wrong"), basic(user="lab-b"), {})
    hosts = (STORAGE, f"secret--lab-b.{HOST}")
    answers = [asked.ask("/", host, headers={**more, **who}) for host in hosts for who in told]
    seen = {(answer.status, answer.body, _without_date(answer)) for answer in answers}

    assert len(seen) == 1


def _without_date(answer: Answer) -> str:
    return json.dumps(sorted((name, value) for name, value in answer.headers.items() if name != "date"))


@pytest.mark.parametrize("host", ["localhost", f"{HOST}.evil.test", f"x.y.{HOST}", "127.0.0.1", f"evil{HOST}"])
def test_foreign_hosts_ask_for_a_password_that_nobody_has(asked: Proxy, host: str) -> None:
    """Whatever name a client says, no virtual host means nobody."""
    said = f"GET / HTTP/1.1\r\nHost: {host}\r\nAuthorization: {basic()['Authorization']}\r\n\r\n".encode()

    assert asked.say(said).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("host", [STORAGE, PORT, HOST])
@pytest.mark.parametrize("port", [":", ":x", ":-1", ":8443x", ":84:43"])
def test_a_port_that_is_no_number_is_refused(asked: Proxy, host: str, port: str) -> None:
    """Envoy would route such a host, and what knows an origin by its name would not know it."""
    assert asked.status(FILE, headers={**basic(), "Host": f"{host}{port}"}) == 400


@pytest.mark.parametrize("said", ["{}", "{}:8443", "{}:0", "{}.", "{}.:8443"])
@pytest.mark.parametrize("host", [STORAGE, STORAGE.upper()])
def test_every_way_to_write_an_origin_is_that_origin(asked: Proxy, host: str, said: str) -> None:
    """With a port, in capitals, with a dot at the end: its rules hold, and the log knows its tenant."""
    path, host = f"{ROOT}/{said}.{host}", said.format(host)
    several = heard(asked.ask(path, headers={**basic(), "Host": host, "Range": "bytes=0-1,3-4"}))
    (line,) = wait_for(lambda: [one for one in asked.log if one["path"] == path], "the request is logged")

    assert "range" not in several
    assert (line["namespace"], line["kind"]) == ("lab-a", "storage")


def test_a_tenant_without_users_lets_nobody_in(asked: Proxy) -> None:
    """A virtual host that says no users, or none at all, is closed."""
    for users in (None, ""):
        asked.routes(*origins(users))
        wait_for(lambda: asked.status(FILE) == 401, "nobody comes in")
    asked.routes(*origins(hashed(USER, PASSWORD)))
    wait_for(lambda: asked.status(FILE) == 200, "the tenant is back")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{ROOT}/../other/x", 400),
        (f"{ROOT}/%2e%2E/x", 400),
        (f"{ROOT}/.%2e/x", 400),
        (f"{ROOT}/./x", 400),
        (f"{ROOT}/..", 400),
        (f"{ROOT}/a%2fb", 400),
        (f"{ROOT}/a%5Cb", 400),
        (f"{ROOT}/a\\b", 400),
        (f"/{ROOT}/a", 400),
        (f"{ROOT}//a", 400),
        (f"{ROOT}/a%00", 400),
        ("/STORAGE/lab-a/dataset/a", 404),
        ("/storage/LAB-A/dataset/a", 404),
        (f"{ROOT}2/a", 404),
        (f"{ROOT}%20/a", 404),
        ("/storage/lab-a/", 404),
        ("/healthz", 404),
    ],
)
def test_odd_paths_are_refused(asked: Proxy, path: str, status: int) -> None:
    """A prefix is whole segments in lower case, and what two readers may read differently is read by none."""
    assert asked.status(path) == status


@pytest.mark.parametrize("name", ["..data", "a..b", "...", ".hidden", "x.", "50%25", "%3F", "%23a"])
def test_file_names_with_dots_and_signs_pass(asked: Proxy, name: str) -> None:
    """Only a whole segment of dots climbs."""
    assert asked.status(f"{ROOT}/{name}") == 200


def test_the_main_host_is_alive_without_a_password(asked: Proxy) -> None:
    """A load balancer has no password."""
    answer = asked.ask("/healthz", HOST, headers={})

    assert (answer.status, answer.body) == (200, b"ok\n")


@pytest.mark.parametrize("path", [f"{ROOT}/A%20b/c?q=1&zip", ROOT, f"{ROOT}/", "/storage/a/b?x"])
def test_old_addresses_lead_to_the_origin(asked: Proxy, path: str) -> None:
    """A link of system A goes on working, whether there is such a storage or not."""
    answer = asked.ask(path, HOST, headers={"Host": f"{HOST}:8443"})
    namespace, storage = path.partition("?")[0].split("/")[2:4]

    assert answer.status == 308
    assert answer.headers["location"] == f"https://{storage}--{namespace}.{HOST}:8443{path}"


@pytest.mark.parametrize(
    "path",
    ["/", "/storage", "/storage/", "/storage/lab-a", "/storage/lab-a/", "/storage/Lab/x", "/x", "/storage/a/b%20",
     f"/storage/{'a' * 40}/{'b' * 40}/"],
)  # fmt: skip
def test_the_main_host_has_nothing_else(asked: Proxy, path: str) -> None:
    """Fewer than two segments, odd names, other paths: 404."""
    assert asked.status(path, HOST, headers={}) == 404


def test_the_origin_begins_at_its_storage(asked: Proxy) -> None:
    """Who types the host alone arrives."""
    answer = asked.ask("/")

    assert answer.status == 302
    assert answer.headers["location"].endswith(f"{STORAGE}{ROOT}/")


def test_without_tls_there_is_only_the_way_to_it(asked: Proxy) -> None:
    """No password is asked for where it could be read."""
    answer = plain(asked.places.plain, "/x?y", {"Host": STORAGE})

    assert answer.status == 308
    assert answer.headers["location"] == f"https://{STORAGE}/x?y"
    assert "www-authenticate" not in answer.headers


def test_not_ready_is_503_and_not_reachable_502(asked: Proxy, upstream: Upstream) -> None:
    """Nobody there to ask differs from somebody who does not answer; the words tell no address."""
    try:
        asked.clusters(cluster("storage"), cluster("port", free_port()))
        wait_for(lambda: asked.status(FILE) == 503, "no endpoint")
        assert asked.ask(FILE).body == f"503 {WORDS[503]}\n".encode()
        wait_for(lambda: asked.status("/", PORT) == 502, "connection refused")
        assert asked.ask("/", PORT).body == f"502 {WORDS[502]}\n".encode()
    finally:
        asked.clusters(cluster("storage", upstream.port), cluster("port", upstream.port))
        wait_for(lambda: asked.status(FILE) == 200 and asked.status("/", PORT) == 200, "all is back")


@pytest.mark.parametrize("status", [404, 416, 500, 503])
def test_answers_of_what_stands_behind_pass_as_they_are(asked: Proxy, upstream: Upstream, status: int) -> None:
    """Also where it refuses."""
    upstream.status, upstream.body = status, b"its own words"
    try:
        answer = asked.ask(FILE)
    finally:
        upstream.status, upstream.body = 200, b""

    assert (answer.status, answer.body) == (status, b"its own words")


def test_websockets_pass(asked: Proxy) -> None:
    """A notebook's kernel is spoken with over one."""
    with asked.connect(PORT) as connection:
        lines = [
            "GET /ws HTTP/1.1",
            f"Host: {PORT}",
            f"Authorization: {basic()['Authorization']}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            f"Origin: https://{PORT}",
        ]
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += connection.recv(1)
        assert head.startswith(b"HTTP/1.1 101 ")
        for word in (b"one", b"two"):
            connection.sendall(word)
            assert connection.recv(3) == word


def test_http_2_is_spoken(asked: Proxy) -> None:
    """Browsers fetch a listing's parts at once."""
    said = curl(asked, f"https://{STORAGE}{FILE}", "-u", f"{USER}:{PASSWORD}", "-w", "%{http_version}")

    assert said.endswith(b"}2")
