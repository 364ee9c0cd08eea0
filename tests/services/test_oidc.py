"""Signing in at an issuer, through the real Envoy, with routes as `routes` writes them."""

import base64
import json
import signal
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from routes.envoy import clusters_json, routes_json
from routes.hosts import Site
from routes.things import Address
from routes.view import Port, Storage, Tenant

from components.proxy_oidc_rules import CALLBACK, SIGN_OUT
from components.proxy_rules import COOKIES
from components.routes import CLUSTERS_FILE, ROUTES_FILE
from tests.services.chromium import OPENS, chromium
from tests.services.issuer import CLIENT, NAVIGATES, Issuer, Visitor, query, text
from tests.services.proxies import (
    CLIENT_SECRET,
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
    hashed,
    proxy,
)
from tests.services.world import Authority, wait_for
from tools.images.build import part_files
from tools.images.recipes import ENVOY

OTHERS, THIRD, UNKNOWN = f"dataset--lab-b.{HOST}", f"dataset--lab-c.{HOST}", f"nothing--lab-a.{HOST}"
ADMITTED = (("email", ("alice@example.com",)), ("groups", ("team",)))
SCRIPT = {"Sec-Fetch-Dest": "empty"}
"""What a browser says of what a page fetches."""
ALICE = {"sub": "1", "email": "alice@example.com", "email_verified": True}


@pytest.fixture(scope="module")
def running(authority: Authority) -> Iterator[Issuer]:
    """Run an issuer."""
    made = Issuer(authority)
    yield made
    made.end()


@pytest.fixture(scope="module")
def asked(
    authority: Authority, running: Issuer, upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    """Give a proxy with three tenants: the second admits nobody whom the issuer signs in, the third others."""
    folder = tmp_path_factory.mktemp("oidc") / "it"
    with proxy(part_files(ENVOY) / "envoy", folder, upstream.port, running.spec(authority)) as made:
        serve(made, upstream.port)
        yield made


def serve(made: Proxy, port: int) -> None:
    """Write the files of `routes`."""
    at = (Address("127.0.0.1", port),)
    storages, users = (Storage("dataset", "1Gi", None, at),), hashed(USER, PASSWORD)
    first = Tenant("lab-a", "lab-a", users, storages, (Port("trainer", "http", at),), claims=ADMITTED)
    third = Tenant("lab-c", "lab-c", users, storages, claims=(("groups", ("mates",)),))
    tenants = [first, Tenant("lab-b", "lab-b", users, storages), third]
    files = {CLUSTERS_FILE: clusters_json(tenants), ROUTES_FILE: routes_json(tenants, Site(HOST, made.places.https))}
    for name, content in files.items():
        (made.folder / "routes" / f".{name}").write_text(content)
        (made.folder / "routes" / f".{name}").rename(made.folder / "routes" / name)
    wait_for(lambda: made.status("/", headers=basic()) == HTTPStatus.FOUND, "the tenants are served")
    wait_for(lambda: made.status("/", THIRD, headers=basic()) == HTTPStatus.FOUND, "all tenants are served")


@pytest.fixture
def issuer(running: Issuer) -> Issuer:
    """Give the issuer, which signs in whom it should."""
    running.claims, running.says, running.gives, running.signs = dict(ALICE), {}, {}, running.key
    return running


@pytest.fixture
def visitor(asked: Proxy, issuer: Issuer) -> Visitor:
    """Give a browser that was nowhere yet."""
    return Visitor(asked, issuer)


def begun(visitor: Visitor, host: str = STORAGE, path: str = f"{ROOT}/a") -> str:
    """Begin a login; give the address at which the origin asked for would take the code."""
    answer = visitor.go(visitor.url(host, path), until=f"https://{host}")
    return answer.headers["Location"]


def heard(answer: Answer) -> dict[str, str]:
    """Give the headers that came to what is behind the proxy."""
    assert answer.status == HTTPStatus.OK, answer
    return {name.lower(): value for name, value in json.loads(answer.body)["headers"]}


def test_a_person_signs_in(visitor: Visitor, issuer: Issuer) -> None:
    """A browser is led to the issuer and back to what it asked for; then it is known, and asked no more."""
    url = visitor.url(STORAGE, f"{ROOT}/a?b=%2Fc&d")
    got = visitor.go(url)
    before = list(issuer.asked)

    assert json.loads(got.body)["path"] == f"{ROOT}/a?b=%2Fc&d"
    assert heard(got)["x-forwarded-user"] == "alice@example.com"
    assert visitor.seen[-1] == url
    assert visitor.step(url).status == HTTPStatus.OK
    assert issuer.asked == before


@pytest.mark.parametrize("path", ["/", f"{ROOT}/a"])
@pytest.mark.parametrize("host", [STORAGE, PORT])
def test_who_is_in_many_groups_signs_in_once(visitor: Visitor, issuer: Issuer, host: str, path: str) -> None:
    """A browser keeps no cookie above 4096 bytes: a longer token is in several, and one of them is none."""
    groups = [f"a-group-with-a-long-name-{number}" for number in range(300)]
    issuer.claims = {**ALICE, "groups": groups}
    url = visitor.url(host, path)
    visitor.go(url)
    before, jar = list(issuer.asked), visitor.jar[host]
    parts = sorted(name for name in jar if "id-token" in name)

    assert len(parts) > 2
    assert visitor.go(visitor.url(host, f"{ROOT}/b")).status == HTTPStatus.OK
    assert issuer.asked == before
    jar[parts[1]] = jar[parts[1]][:-1]
    assert visitor.step(url).headers["Location"].startswith(issuer.url)
    issuer.claims = ALICE
    visitor.go(url)
    assert visitor.go(visitor.url(host, f"{ROOT}/b")).status == HTTPStatus.OK
    seen = heard(visitor.step(visitor.url(host, f"{ROOT}/b")))
    assert "cookie" not in seen


def test_one_address_to_come_back_to(visitor: Visitor) -> None:
    """Whatever origin was asked, the issuer is told the same address, at the main host."""
    for host in (STORAGE, PORT):
        location = visitor.step(visitor.url(host, "/")).headers["Location"]
        assert query(location)["redirect_uri"] == visitor.url(HOST, CALLBACK)


def test_what_is_behind_sees_no_session(visitor: Visitor) -> None:
    """A unit gets its own cookies, and neither ours nor a token; what a client says in their name is dropped."""
    visitor.go(visitor.url(PORT, "/"))
    visitor.jar[PORT]["theirs"] = "x"
    claims = {"X-Gpu-Runtime-Id-Token": "forged", "X-Forwarded-Claimed-User": "root", "X-Forwarded-User": "root"}
    claims |= {"X-Gpu-Runtime-Authorization": "token forged"}
    got = heard(visitor.step(visitor.url(PORT, "/"), **claims))

    assert got["cookie"] == "theirs=x"
    assert got["x-forwarded-user"] == "alice@example.com"
    assert not {"authorization", "x-gpu-runtime-id-token", "x-forwarded-claimed-user"} & set(got)
    assert not [word for word in ("eyJ", "forged") if word in json.dumps(got)]


@pytest.mark.parametrize("said", ["token abc", "Bearer eyJhbGciOiJub25lIn0.e30.", "Digest username=x"])
def test_a_program_with_a_token_of_its_own_gets_it(visitor: Visitor, said: str) -> None:
    """A page of a unit may say one beside a session: the proxy reads nothing from it; a storage gets none."""
    for host, got in ((PORT, said), (STORAGE, None)):
        url = visitor.url(host, f"{ROOT}/a")
        assert visitor.step(url, Authorization=said, **SCRIPT).status == HTTPStatus.UNAUTHORIZED
        visitor.go(url)
        known = heard(visitor.step(url, Authorization=said, **SCRIPT))
        assert (known.get("authorization"), known["x-forwarded-user"]) == (got, "alice@example.com")
        assert not [name for name in known if name.startswith("x-gpu-runtime")]
        assert "authorization" not in heard(visitor.step(url, **SCRIPT))


def test_a_password_is_never_a_programs_own(visitor: Visitor, asked: Proxy) -> None:
    """Right or wrong, it ends at the proxy, and a wrong one is refused beside a session too."""
    url = visitor.url(PORT, "/")
    assert "authorization" not in heard(asked.ask("/", PORT))
    visitor.go(url)
    assert "authorization" not in heard(visitor.step(url, Authorization="Basic", **SCRIPT))
    for said in ("basic eDp5", "BASIC eDp5", basic(USER, "wrong")["Authorization"]):
        refused = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
        assert visitor.step(url, Authorization=said, **SCRIPT).status in refused


def test_of_two_tokens_none_is_a_programs_own(asked: Proxy) -> None:
    """Nobody knows which of them counts: neither is believed, and neither goes on."""
    both = f"GET / HTTP/1.1\r\nHost: {PORT}\r\nAuthorization: token x\r\nAuthorization: {basic()['Authorization']}\r\n"
    said = asked.say(f"{both}Connection: close\r\n\r\n".encode(), PORT)

    assert said.startswith(b"HTTP/1.1 401 ")


def test_a_password_is_a_way_in_too(asked: Proxy) -> None:
    """Programs sign in as without an issuer, and are asked for a password and not led away."""
    assert heard(asked.ask(f"{ROOT}/a"))["x-forwarded-user"] == USER
    assert asked.status("/storage/lab-b/dataset/a", OTHERS) == HTTPStatus.OK
    refused = asked.ask(f"{ROOT}/a", headers={})
    assert (refused.status, refused.body) == (401, b"401 sign in\n")
    assert refused.headers["WWW-Authenticate"].startswith("Basic realm=")


def test_a_page_whose_session_ended_asks_for_no_password(asked: Proxy) -> None:
    """What a page fetches is refused without a prompt, and not led to another site."""
    refused = asked.ask(f"{ROOT}/a", headers={"Sec-Fetch-Dest": "empty"})

    assert (refused.status, refused.body) == (401, b"401 sign in\n")
    assert refused.headers["WWW-Authenticate"] is None


@pytest.mark.parametrize(
    "said",
    [
        basic(USER, "wrong"),
        {"Authorization": "Basic"},
        {"Authorization": "Basic "},
        {"Authorization": "Basic !!"},
        {"Authorization": "Bearer eyJ"},
        {"X-Gpu-Runtime-Id-Token": "eyJ.eyJ.x"},
        {"X-Forwarded-User": USER},
        {"Cookie": f"{COOKIES}oauth-hmac=x; {COOKIES}oauth-expires=9999999999; {COOKIES}id-token=x"},
    ],
)
def test_nothing_but_a_right_password_or_a_session(asked: Proxy, said: dict[str, str]) -> None:
    """Whatever else a client says, it is told the same by what exists and by what does not."""
    answers = [asked.ask(f"{ROOT}/a", host, headers=said) for host in (STORAGE, PORT, OTHERS, UNKNOWN)]

    assert {(a.status, a.body) for a in answers} == {(401, b"401 sign in\n")}
    assert len({a.headers["WWW-Authenticate"] for a in answers}) == 1


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "bob@example.com", "email_verified": True},
        {"email": "alice@example.com", "email_verified": False},
        {"email": "alice@example.com", "email_verified": "true"},
        {"email": "alice@example.com"},
        {"email": "Alice@example.com", "email_verified": True},
        {"email": ["alice@example.com.evil.test"], "email_verified": True},
        {"groups": ["teams"]},
        {"groups": "team mates"},
        {"groups": {"team": "team"}},
        {},
    ],
)
def test_whom_no_claim_admits_sees_nothing(visitor: Visitor, issuer: Issuer, claims: dict[str, Any]) -> None:
    """Who may not see a storage is answered as by one that nobody has."""
    issuer.claims = {"sub": "2", **claims}
    refused, nowhere = (visitor.go(visitor.url(host, f"{ROOT}/a")) for host in (STORAGE, UNKNOWN))

    assert (refused.status, refused.body) == (403, b"403 forbidden\n")
    assert (nowhere.status, nowhere.body) == (refused.status, refused.body)
    assert dict(nowhere.headers) == {**dict(refused.headers), "date": nowhere.headers["date"]}


def test_who_is_admitted_is_told_what_there_is_not(visitor: Visitor) -> None:
    """At a host that one's own tenant has not; at one of the next tenant it is as ever."""
    nothing, theirs = (visitor.go(visitor.url(host, "/")) for host in (UNKNOWN, UNKNOWN.replace("lab-a", "lab-b")))

    assert (nothing.status, nothing.body) == (404, b"404 not found\n")
    assert theirs.status == HTTPStatus.FORBIDDEN


def test_a_tenant_that_says_nothing_admits_nobody(visitor: Visitor) -> None:
    """Who is somebody at one tenant is nobody at the next."""
    assert visitor.go(visitor.url(STORAGE, f"{ROOT}/a")).status == HTTPStatus.OK
    assert visitor.go(visitor.url(OTHERS, "/")).status == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("written", ["{}", "{}:{port}", "{}.", "{}.:{port}"])
@pytest.mark.parametrize("capitals", [False, True])
def test_each_tenants_people_are_its_own(visitor: Visitor, issuer: Issuer, written: str, *, capitals: bool) -> None:
    """However the host is written: who is one tenant's is nobody at the next that admits people as well."""
    for groups, own, others in (("team", STORAGE, THIRD), ("mates", THIRD, STORAGE)):
        issuer.claims = {"sub": "5", "groups": [groups]}
        person = Visitor(visitor.proxy, issuer)
        for host, status in ((own, HTTPStatus.OK), (others, HTTPStatus.FORBIDDEN)):
            url = person.url(host, f"/storage/{host.partition('.')[0].partition('--')[2]}/dataset/a")
            assert person.go(url).status == status
            as_written = written.format(host.upper() if capitals else host, port=person.proxy.places.https)
            assert host == own or person.step(url, Host=as_written).status != HTTPStatus.OK


@pytest.mark.parametrize("groups", ["team", ["others", "team"]])
def test_one_claim_is_enough(visitor: Visitor, issuer: Issuer, groups: object) -> None:
    """A claim counts as a text and as a list; who has no address has no name for the log."""
    issuer.claims = {"sub": "3", "groups": groups}
    got = heard(visitor.go(visitor.url(STORAGE, f"{ROOT}/a")))

    assert got.get("x-forwarded-user", "-") == "-"


@pytest.mark.parametrize(
    ("says", "forged"),
    [
        ({"exp": 1}, False),
        ({"exp": None}, False),
        ({"aud": "another-client"}, False),
        ({"iss": "https://evil.example.com"}, False),
        ({}, True),
    ],
)
def test_a_bad_token_is_no_session(visitor: Visitor, issuer: Issuer, says: dict[str, Any], *, forged: bool) -> None:
    """An ID token that is too old, for somebody else, by somebody else or signed by another key admits nobody."""
    issuer.says = says
    issuer.signs = ec.generate_private_key(ec.SECP256R1()) if forged else issuer.key
    visitor.step(begun(visitor))
    answer, nowhere = (visitor.step(visitor.url(host, f"{ROOT}/a")) for host in (STORAGE, UNKNOWN))

    # to the issuer again, or the same as where nothing is: for another client's token 403
    assert answer.status in {HTTPStatus.FOUND, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
    assert b"headers" not in answer.body
    assert nowhere.status == HTTPStatus.FOUND


def test_a_name_is_one_header(visitor: Visitor, issuer: Issuer) -> None:
    """What an ID token calls the user cannot say more to what is behind the proxy than a name."""
    issuer.claims = {"sub": "4", "groups": "team", "email": "a\r\nX-Evil: 1"}
    answer = visitor.go(visitor.url(STORAGE, f"{ROOT}/a"))

    assert answer.status != HTTPStatus.OK or "x-evil" not in heard(answer)


def test_another_origins_cookie_gains_nothing(visitor: Visitor) -> None:
    """A session of one origin, carried to the tenant's other one, is none."""
    visitor.go(visitor.url(STORAGE, f"{ROOT}/a"))
    visitor.jar[PORT] = dict(visitor.jar[STORAGE])

    assert visitor.step(visitor.url(PORT, "/")).headers["Location"].startswith(visitor.issuer.url)


@pytest.mark.parametrize("part", ["oauth-hmac", "oauth-expires", "id-token"])
def test_a_changed_cookie_is_none(visitor: Visitor, part: str) -> None:
    """A session of which a part is changed is none."""
    visitor.go(visitor.url(STORAGE, f"{ROOT}/a"))
    cookie = visitor.jar[STORAGE][f"{COOKIES}{part}"]
    visitor.jar[STORAGE][f"{COOKIES}{part}"] = ("9" if cookie[0] != "9" else "8") + cookie[1:]

    assert visitor.step(visitor.url(STORAGE, f"{ROOT}/a")).headers["Location"].startswith(visitor.issuer.url)


def test_a_code_is_good_for_the_browser_that_began(visitor: Visitor) -> None:
    """A callback that somebody else's login led to signs nobody in: neither with no login begun, nor with another."""
    other = Visitor(visitor.proxy, visitor.issuer)
    url = begun(visitor)
    begun(other)

    for one in (Visitor(visitor.proxy, visitor.issuer), other):
        answer = one.step(url)
        assert answer.status == HTTPStatus.UNAUTHORIZED
        assert one.step(visitor.url(STORAGE, f"{ROOT}/a")).status == HTTPStatus.FOUND
    assert visitor.step(url).status == HTTPStatus.FOUND
    assert visitor.step(visitor.url(STORAGE, f"{ROOT}/a")).status == HTTPStatus.OK


@pytest.mark.parametrize("url", ["https://evil.example.com/", f"https://{HOST}.evil.example.com/", "https://x@evil/"])
@pytest.mark.parametrize("signed_in", [False, True])
def test_a_changed_state_leads_nowhere(visitor: Visitor, url: str, *, signed_in: bool) -> None:
    """A state with another address is refused at the main host and at the origin, with and without a session."""
    back = begun(visitor)
    if signed_in:
        visitor.go(visitor.url(STORAGE, f"{ROOT}/a"))
    state = query(back)["state"]
    said = json.loads(base64.urlsafe_b64decode(state + "=" * (-len(state) % 4)))
    changed = back.replace(state, text(json.dumps({**said, "url": url}, separators=(",", ":")).encode()))

    assert said["url"] == visitor.url(STORAGE, f"{ROOT}/a")
    assert visitor.step(changed.replace(STORAGE, HOST)).status == HTTPStatus.BAD_REQUEST
    assert visitor.step(changed).status == HTTPStatus.UNAUTHORIZED


def test_a_code_is_for_the_origin_that_was_asked(visitor: Visitor) -> None:
    """Led to another origin, by whoever made the state, a code is nothing that its page could sign in with."""
    back = visitor.go(visitor.url(STORAGE, f"{ROOT}/a"), until=visitor.url(HOST, CALLBACK)).headers["Location"]
    code, state = query(back)["code"], query(back)["state"]
    said = json.loads(base64.urlsafe_b64decode(state + "=" * (-len(state) % 4)))
    other = text(json.dumps({**said, "url": visitor.url(PORT, "/")}, separators=(",", ":")).encode())
    led = visitor.step(back.replace(state, other)).headers["Location"]
    stolen = query(led)["code"]

    assert led.startswith(visitor.url(PORT, CALLBACK))
    assert code not in led
    for taken in (stolen, code, ""):
        assert visitor.step(visitor.url(STORAGE, f"{CALLBACK}?code={taken}&state={state}")).status != HTTPStatus.FOUND
    jar = dict(visitor.jar[STORAGE])
    again = visitor.step(visitor.url(HOST, f"{CALLBACK}?code={stolen}&state={state}")).headers["Location"]
    assert visitor.step(again).status == HTTPStatus.UNAUTHORIZED, "the issuer knows no such code"
    visitor.jar[STORAGE] = jar
    assert visitor.step(visitor.step(back).headers["Location"]).status == HTTPStatus.FOUND


def test_nobody_signs_in_while_codes_cannot_be_sealed(visitor: Visitor) -> None:
    """Without the program that seals them codes go nowhere; passwords and sessions are good all the same."""
    back = visitor.go(visitor.url(STORAGE, f"{ROOT}/a"), until=visitor.url(HOST, CALLBACK)).headers["Location"]
    led = visitor.step(back).headers["Location"]
    sealer = visitor.proxy.sealer
    assert sealer is not None
    sealer.popen.send_signal(signal.SIGSTOP)
    try:
        assert visitor.step(back).status == HTTPStatus.SERVICE_UNAVAILABLE
        assert visitor.step(led).status == HTTPStatus.UNAUTHORIZED
        assert visitor.proxy.status(f"{ROOT}/a") == HTTPStatus.OK
    finally:
        sealer.popen.send_signal(signal.SIGCONT)
    assert visitor.step(led).status == HTTPStatus.FOUND


def test_a_password_signs_out_too(visitor: Visitor) -> None:
    """The address that ends a session never leads to what is behind, whoever asks."""
    assert visitor.step(visitor.url(PORT, SIGN_OUT), **basic()).status == HTTPStatus.FOUND


@pytest.mark.parametrize(
    "state", ["", "state=", "state=%%%", "state=e30", f"state={'A' * 9000}", "code=1", f"state={text(b'x' * 99)}"]
)
def test_the_main_host_leads_to_origins_alone(asked: Proxy, state: str) -> None:
    """A callback whose state names no origin is refused."""
    assert asked.status(f"{CALLBACK}?{state}", HOST, headers=NAVIGATES) == HTTPStatus.BAD_REQUEST


def test_a_code_never_reaches_what_is_behind(visitor: Visitor) -> None:
    """A callback with a right password beside it is a callback all the same."""
    host = begun(visitor, PORT, "/")

    answer = visitor.step(host, **basic())
    assert answer.status == HTTPStatus.FOUND
    assert b"code" not in answer.body
    assert Visitor(visitor.proxy, visitor.issuer).step(host, **basic()).status == HTTPStatus.UNAUTHORIZED


def test_a_real_browser_signs_in(visitor: Visitor, tmp_path: Path) -> None:
    """A person who opens a unit's page comes back to it signed in, and it opens WebSockets with that session."""
    with chromium(tmp_path, HOST, visitor.proxy.places.https) as person:
        person.get(visitor.url(PORT, "/a?b=c"))
        assert person.run("return location.href") == visitor.url(PORT, "/a?b=c")
        assert "alice@example.com" in person.run("return document.body.textContent")
        assert person.run(OPENS) == "open"
        assert person.run("return document.cookie") == ""


def test_no_socket_without_a_session(visitor: Visitor) -> None:
    """What opens a WebSocket without one is asked for it, like every other request of a program."""
    opens = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    said = {**opens, "Origin": visitor.url(PORT, ""), "Sec-Fetch-Dest": "websocket"}

    assert visitor.step(visitor.url(PORT, "/socket"), **said).status == HTTPStatus.UNAUTHORIZED


def test_signing_out_ends_the_session(visitor: Visitor) -> None:
    """The browser forgets it, and goes on to the issuer's own end of it."""
    visitor.go(visitor.url(STORAGE, f"{ROOT}/a"))
    left = visitor.step(visitor.url(STORAGE, SIGN_OUT))

    assert left.headers["Location"].startswith(f"{visitor.issuer.url}/end?")
    assert f"client_id={CLIENT}" in left.headers["Location"]
    assert not visitor.jar[STORAGE]
    assert visitor.step(visitor.url(STORAGE, f"{ROOT}/a")).status == HTTPStatus.FOUND


def failed(visitor: Visitor, issuer: Issuer) -> Iterator[Answer]:
    """Fail to sign in, by each way back that is none and by each gift of the issuer that is none."""
    for said in ("", "error=access_denied&state={}", "code=code-1", "state={}"):
        back = begun(visitor)
        yield visitor.step(f"{back.partition('?')[0]}?{said.format(query(back)['state'])}")
    for gives in ({"access_token": None}, {"expires_in": 0}, {"expires_in": "soon"}):
        issuer.gives = gives
        yield visitor.step(begun(visitor))
    issuer.gives = {}
    # a session that is none any more, and what is no navigation
    visitor.jar[STORAGE] = {f"{COOKIES}{part}": "eyJ" for part in ("oauth-hmac", "oauth-expires", "id-token")}
    yield visitor.step(visitor.url(STORAGE, f"{ROOT}/a?state=code-2"), **SCRIPT)
    visitor.jar.clear()


def test_a_login_that_fails_may_begin_again(visitor: Visitor, issuer: Issuer) -> None:
    """Whom the issuer refuses, or for whom it gives something else, gets a plain 401; then the way is open again."""
    for answer in failed(visitor, issuer):
        assert answer.status == HTTPStatus.UNAUTHORIZED
        assert b"eyJ" not in answer.body
    assert heard(visitor.go(visitor.url(STORAGE, f"{ROOT}/a")))["x-forwarded-user"] == "alice@example.com"


def test_no_log_has_a_secret(visitor: Visitor, issuer: Issuer, asked: Proxy) -> None:
    """Neither the client's secret nor a code, state or token is in any log line; the log has who it was."""

    def refused() -> int:
        return sum(one["status"] == HTTPStatus.UNAUTHORIZED for one in asked.log)

    before = refused()
    tried = len(list(failed(visitor, issuer)))
    visitor.go(visitor.url(STORAGE, f"{ROOT}/logged"))

    def who() -> set[object]:
        return {one["user"] for one in asked.log if one["path"] == f"{ROOT}/logged"}

    wait_for(lambda: who() == {None, "alice@example.com"}, "the log says who it was, once they had signed in")
    assert refused() - before >= tried
    for secret in (CLIENT_SECRET, "code-", "eyJ", "opaque-access-token", "state="):
        assert not [line for line in asked.process.text.splitlines() if secret in line]
