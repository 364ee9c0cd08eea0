"""Ports of units in a browser, on a real cluster: who gets in, what the program is told, and what stays open."""

import base64
import json
import os
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Pod, Service

from components import names
from e2e import browsing
from e2e.browsing import HOST, Answer, came, opened, signed
from e2e.conftest import made, on_a_fresh_rig
from e2e.netns import Try, finish, pid_of, space_of, start
from e2e.world import BOTH, World, wait_until
from tests.services.chromium import Chromium, chromium

pytestmark = pytest.mark.e2e

PORT = 31444
WEB, DEAD, OWN = (f"{port}--lab--lab-a.{HOST}" for port in ("web", "dead", "own"))
BOARD = f"board--other--lab-a.{HOST}"
ORIGIN = f"https://{WEB}:{PORT}"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a stack with two units that serve, behind the proxy."""
    with on_a_fresh_rig(tmp_path_factory.mktemp("web"), "web") as bare:
        world = made(bare)
        until(world, WEB, 302)
        until(world, BOARD, 200)
        yield world


def ask(world: World, path: str, host: str = WEB, method: str = "GET", **headers: str) -> Answer:
    """Ask a port for *path*; an underscore in a header's name is a hyphen."""
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    return browsing.ask(world, (host, PORT), path, said, method)


def until(world: World, host: str, status: int) -> None:
    """Wait until *host* answers who signed in so, through both proxies."""

    def says() -> bool:
        return ask(world, "/", host, **signed(world)).status == status

    wait_until(lambda: came(says, BOTH), f"{host} to say {status}")


def test_who_may_look(shown: World) -> None:
    """Without a password, with a wrong one or another tenant's, and at what is not there, all get the same words."""
    wrong = {"Authorization": f"Basic {base64.b64encode(b'lab-a:wrong').decode()}"}
    refused = [
        ask(shown, "/"),
        ask(shown, "/", **wrong),
        ask(shown, "/", **signed(shown, "lab-b")),
        ask(shown, "/", f"web--lab--lab-b.{HOST}", **signed(shown)),
        ask(shown, "/", f"none--lab--lab-a.{HOST}", **signed(shown, "lab-b")),
    ]

    assert {(one.status, one.body) for one in refused} == {(401, b"401 sign in\n")}
    assert len({str(sorted((k, v) for k, v in one.headers.items() if k != "date")) for one in refused}) == 1


def told(world: World, **headers: str) -> dict[str, list[str]]:
    """Give what the program is told, by header."""
    found: dict[str, list[str]] = {}
    for name, value in json.loads(ask(world, "/headers", **signed(world), **headers).body):
        found.setdefault(name.lower(), []).append(value)
    return found


def test_the_program_is_told_who_and_never_the_password(shown: World) -> None:
    """The connection's own words, whatever the client claims; no Authorization of any kind."""
    said = told(
        shown, X_Forwarded_User="root", X_Forwarded_For="1.2.3.4", X_Forwarded_Proto="http", X_Forwarded_Host="evil"
    )

    assert "authorization" not in said
    assert said["x-forwarded-user"] == ["lab-a"]
    assert said["x-forwarded-proto"] == ["https"]
    assert said["x-forwarded-host"] == said["host"] == [f"{WEB}:{PORT}"]
    (client,) = said["x-forwarded-for"]
    assert "1.2.3.4" not in client


def test_a_notebook_finds_itself(shown: World) -> None:
    """Its redirect leads to its own origin, its cookie is for that alone, and a form with both is taken."""
    first = ask(shown, "/", **signed(shown))
    assert (first.status, first.headers["location"]) == (302, f"{ORIGIN}/tree")
    cookie = first.headers["set-cookie"]
    assert cookie.startswith("_xsrf=known")
    assert "domain" not in cookie.lower()

    token = {"X_XSRFToken": "known", "Cookie": "_xsrf=known", **signed(shown)}
    assert ask(shown, "/save", method="POST", Origin=ORIGIN, **token).body == b"done"
    assert ask(shown, "/save", method="POST", Origin=ORIGIN, **{**token, "X_XSRFToken": "x"}).body == b"no token"
    forged = ask(shown, "/save", method="POST", Origin=f"https://{BOARD}:{PORT}", **token)
    assert (forged.status, forged.body) == (403, b"403 forbidden\n")


class Socket:
    """A WebSocket's client, as small as RFC 6455 allows."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self.connection = connection

    def says(self, text: str) -> str:
        """Send a short text; give the answer."""
        mask, said = os.urandom(4), text.encode()
        masked = bytes(byte ^ mask[number % 4] for number, byte in enumerate(said))
        self.connection.sendall(bytes((0x81, 0x80 | len(said))) + mask + masked)
        kind, length = self._exactly(2)
        assert kind == 0x81
        return self._exactly(length).decode()

    def _exactly(self, length: int) -> bytes:
        got = b""
        while len(got) < length:
            more = self.connection.recv(length - len(got))
            assert more, "the socket has ended"
            got += more
        return got


@contextmanager
def socket(world: World, **headers: str) -> Iterator[tuple[int, Socket]]:
    """Open a WebSocket; give the status and, where it is 101, the socket."""
    key = base64.b64encode(os.urandom(16)).decode()
    said = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": key, "Sec-WebSocket-Version": "13"}
    with closing(opened(world, WEB, PORT)) as connection:
        connection.request("GET", "/socket", headers={"Host": f"{WEB}:{PORT}", **said, **headers})
        held: Any = connection.sock
        answer = connection.getresponse()
        yield answer.status, Socket(held)


def test_a_socket_is_for_who_signed_in_and_for_its_own_pages(shown: World) -> None:
    """The proxy refuses it without a password, and from another origin's page before the program hears of it."""
    with socket(shown, Origin=ORIGIN, **signed(shown)) as (status, held):
        assert status == 101
        assert held.says("hello") == "hello"
    with socket(shown, Origin=ORIGIN) as (status, _):
        assert status == 401
    with socket(shown, Origin=f"https://{BOARD}:{PORT}", **signed(shown)) as (status, _):
        assert status == 403


def test_a_socket_outlives_other_routes(shown: World) -> None:
    """Another unit's port comes and goes, and one that is open stays open: the same connection answers throughout."""
    service = names.unit("other")
    before = shown.cluster.get(Service, service, namespace="lab-a").metadata
    exposed = before.annotations[names.WEB_ANNOTATION] if before and before.annotations else ""
    with socket(shown, Origin=ORIGIN, **signed(shown)) as (_, held):
        for value, status in (("", 404), (exposed, 200)):
            changed = {"metadata": {"annotations": {names.WEB_ANNOTATION: value}}}
            shown.cluster.patch(Service, service, changed, namespace="lab-a")
            until(shown, BOARD, status)
            assert held.says(f"after {status}") == f"after {status}"


def test_what_is_off_says_so(shown: World) -> None:
    """503 while the unit has no pod, and 502 for a port where nobody listens, in plain words; on again, it answers."""
    dead = ask(shown, "/", DEAD, **signed(shown))
    assert (dead.status, dead.body) == (502, b"502 not reachable\n")
    for replicas, status in ((0, 503), (1, 200)):
        shown.cluster.patch(Deployment, names.unit("other"), {"spec": {"replicas": replicas}}, namespace="lab-a")
        until(shown, BOARD, status)
        if status == 503:
            assert ask(shown, "/", BOARD, **signed(shown)).body == b"503 not ready\n"


def pod(world: World, component: str, instance: str, namespace: str) -> Any:
    """Give a pod of an instance."""
    labels: dict[str, Any] = dict(names.selector(component, instance))
    return next(iter(world.cluster.list(Pod, namespace=namespace, labels=labels)))


def test_a_port_that_is_not_exposed_is_not_there(shown: World) -> None:
    """Not by name, with the right password; nor by address from the proxy itself, which reaches the one that is."""
    assert ask(shown, "/", OWN, **signed(shown)).status == 404
    unit = pod(shown, "unit", "lab", "lab-a")
    tries: list[Try] = [(str(unit.status.podIP), port, "TCP") for port in (8888, 9999, names.SSHD_PORT)]
    proxy = space_of(pid_of(str(pod(shown, names.PROXY, names.PROXY, names.PLATFORM_NAMESPACE).metadata.uid)))

    assert finish(start(proxy, tries)) == [True, False, False]


SOCKET = """
const socket = new WebSocket(`wss://${location.host}/socket`);
return await new Promise((next, fail) => {
  socket.onopen = () => socket.send('from a page');
  socket.onmessage = event => next(event.data);
  socket.onerror = () => fail('no socket');
});
"""
READ = """
try { return await (await fetch(arguments[0], {credentials: 'include'})).text() } catch (error) { return error.name }
"""


@pytest.fixture
def person(shown: World, tmp_path: Path) -> Iterator[Chromium]:
    """Give a browser that has signed in at every origin of the tenant."""
    user, _, secret = base64.b64decode(signed(shown)["Authorization"].split()[1]).decode().partition(":")
    with chromium(tmp_path, HOST, PORT, str(shown.rig.node_ip)) as browser:
        for host in (f"lab-a.{HOST}", f"scratch--lab-a.{HOST}", WEB, BOARD):
            browser.get(f"https://{user}:{secret}@{host}:{PORT}/")
        yield browser


def test_a_real_browser(person: Chromium) -> None:
    """The index leads to the port; its page has a socket of its own, keeps its cookie, and reads no other origin."""
    files = f"https://scratch--lab-a.{HOST}:{PORT}/storage/lab-a/scratch/"
    person.get(files)
    assert person.run("return (await fetch('secret', {method: 'PUT', body: 'of the storage'})).status") == 201
    person.get(f"https://lab-a.{HOST}:{PORT}/")
    links = person.run("return [...document.querySelectorAll('a')].map(a => a.href)")
    assert {files, f"{ORIGIN}/", f"https://{BOARD}:{PORT}/"} <= set(links)

    person.get(f"{ORIGIN}/page")
    assert person.run(SOCKET) == "from a page"
    assert person.run("return document.cookie") == "_xsrf=known"
    assert person.run(READ, "/page").endswith("a unit's page")
    assert person.run(READ, f"{files}secret") == "TypeError"
    person.get(f"https://{BOARD}:{PORT}/")
    assert person.run("return document.cookie") == ""
    assert person.run(READ, f"{ORIGIN}/page") == "TypeError"
