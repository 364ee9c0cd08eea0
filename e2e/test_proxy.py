"""A storage in a browser, through the proxy, on a real cluster: who gets in, what comes, and what no roll-out cuts."""

import hashlib
import http.client
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Pod

from components import names
from components.browser import BROWSER
from e2e import browsing
from e2e.browsing import HOST, Answer, came, signed
from e2e.certificates import Certificate, define, give, hasten, serves
from e2e.conftest import made, on_a_fresh_rig
from e2e.netns import connected, kill
from e2e.world import BOTH, WITH_PACK, World, attempt, is_ready, rolled_out, wait_until
from tests.services.world import Authority

pytestmark = pytest.mark.e2e

PORT = 31442
STORAGE = f"dataset--lab-a.{HOST}"
FILE = "/storage/lab-a/dataset/big"
CONTENT = random.Random(7).randbytes(1 << 20) * 64  # noqa: S311 - what the prepare job writes, not a secret
"""As e2e/Pulumi.proxy.yaml fills it."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a stack whose storage is behind the proxy, and serves."""
    with on_a_fresh_rig(tmp_path_factory.mktemp("proxy"), "proxy") as bare:
        world = made(bare)
        wait_until(lambda: came(lambda: _leads(world), BOTH), "the storage to be led to")
        yield world


def _leads(world: World) -> bool:
    """Say whether the proxy knows the storage."""
    return ask(world, "/", headers=signed(world)).status == 302


def opened(world: World) -> http.client.HTTPConnection:
    """Connect to the entrance, for the storage."""
    return browsing.opened(world, STORAGE, PORT)


def ask(world: World, path: str, host: str = STORAGE, headers: dict[str, str] | None = None) -> Answer:
    """Ask a host of the proxy for *path*."""
    return browsing.ask(world, (host, PORT), path, headers or {})


PROXIES = names.component_selector(names.PROXY)


def pods(world: World, labels: dict[str, Any] = PROXIES, namespace: str = names.PLATFORM_NAMESPACE) -> list[Any]:
    """Give the pods, of the proxy unless other labels are said, that are not about to end."""
    found = world.cluster.list(Pod, namespace=namespace, labels=labels)
    return [pod for pod in found if pod.metadata and pod.metadata.deletionTimestamp is None]


def test_nothing_is_shown_without_a_password(shown: World) -> None:
    """Nor with another tenant's, nor of what is not there: each in the same words. One's own is found, or is not."""
    nothing = f"nothing--lab-a.{HOST}"
    refused = [
        ask(shown, FILE),
        ask(shown, FILE, headers=signed(shown, "lab-b")),
        ask(shown, "/", nothing),
        ask(shown, "/", nothing, signed(shown, "lab-b")),
        ask(shown, "/", f"nothing--lab-c.{HOST}", signed(shown)),
    ]
    own = ask(shown, "/", nothing, signed(shown))

    assert {(one.status, one.body) for one in refused} == {(401, b"401 sign in\n")}
    assert (own.status, own.body) == (404, b"404 not found\n")


def test_the_old_address_leads_to_the_listing(shown: World) -> None:
    """From a link as system A gave it to the page of dufs, which is not sandboxed, while a file is."""
    first = ask(shown, "/storage/lab-a/dataset/?q=big", HOST)
    assert first.headers["location"] == f"https://{STORAGE}:{PORT}/storage/lab-a/dataset/?q=big"
    listing = ask(shown, "/storage/lab-a/dataset/?q=big", headers=signed(shown))
    assert listing.status == 200
    assert "script-src 'self'" in listing.headers["content-security-policy"]
    assert ask(shown, "/healthz", HOST).body == b"ok\n"


def test_a_download_is_the_file(shown: World) -> None:
    """Byte for byte, and shown as what a tenant wrote."""
    answer = ask(shown, FILE, headers=signed(shown))

    assert hashlib.sha256(answer.body).digest() == hashlib.sha256(CONTENT).digest()
    assert answer.headers["content-security-policy"].startswith("sandbox;")


def test_a_roll_out_cuts_no_download(shown: World) -> None:
    """Both pods are replaced while a file is half read; it comes to its end, and new clients are served throughout."""
    before = {pod.metadata.uid for pod in pods(shown)}
    with _half_read(shown) as (got, answer):
        again = {"spec": {"template": {"metadata": {"annotations": {"gpu-runtime/restarted": "once"}}}}}
        shown.cluster.patch(Deployment, names.PROXY, again, namespace=names.PLATFORM_NAMESPACE)
        wait_until(lambda: _replaced(shown, before), "both pods of the proxy to be replaced")
        got.extend(answer.read())

    assert got == CONTENT


def _replaced(world: World, before: set[str]) -> bool:
    now = pods(world)
    served = ask(world, "/storage/lab-a/dataset/", headers=signed(world)).status
    assert served == 200, "a new client is turned away while pods are replaced"
    ready = [pod for pod in now if is_ready(pod)]
    return len(ready) == 2 and not before & {pod.metadata.uid for pod in ready}


@pytest.mark.parametrize("program", ["envoy", "dufs"])
def test_a_death_is_survived_by_asking_for_the_rest(shown: World, program: str) -> None:
    """Whoever serves a file is killed in the middle of it; the next one gives the rest, and bytes are equal."""
    with _half_read(shown) as (got, answer):
        killed = _kill(_everybody(shown), program)
        got.extend(_what_came(answer))
    assert len(got) < len(CONTENT)
    rest = bytearray()

    def given() -> bool:
        answer = ask(shown, FILE, headers={**signed(shown), "Range": f"bytes={len(got)}-"})
        rest[:] = answer.body
        return answer.status == 206

    wait_until(lambda: came(given), "the rest of the file")
    assert got + rest == CONTENT
    _wait_for(shown, killed)


def test_the_other_envoy_gives_the_rest_at_once(shown: World) -> None:
    """One alone is killed, the one with the download: the other, which never ended, has what is asked for next."""
    with _half_read(shown) as (got, answer):
        (first,) = _serving(shown)
        (other,) = (pod for pod in pods(shown) if pod.metadata.uid != first.metadata.uid)
        killed = _kill([first], "envoy")
        with _half_read(shown, len(got)) as (more, rest):
            assert [pod.metadata.uid for pod in _serving(shown)] == [other.metadata.uid]
            more.extend(rest.read())
        kept = got + _what_came(answer)
    after = next(pod for pod in pods(shown) if pod.metadata.uid == other.metadata.uid)

    assert len(kept) < len(CONTENT)
    assert got + more == CONTENT
    assert _restarts(after) == _restarts(other)
    _wait_for(shown, killed)


def test_no_download_needs_who_writes_the_routes(shown: World) -> None:
    """Where routes is killed in both pods a file comes to its end, and new clients are served meanwhile."""
    with _half_read(shown) as (got, answer):
        killed = _kill(pods(shown), "routes")
        assert ask(shown, FILE, headers={**signed(shown), "Range": "bytes=0-0"}).status == 206
        got.extend(answer.read())

    assert got == CONTENT
    _wait_for(shown, killed)


def test_what_cert_manager_gets_is_served(shown: World, tmp_path: Path) -> None:
    """The API server takes what it is asked for; what its Secret has is served then, and no Envoy ends for it."""
    authority, first = Authority(tmp_path, "issuer"), _running(shown).keys()
    define(shown)
    _with_tls(shown, {"kind": "certManager", "issuer": {"name": "by-dns"}})
    before = _running(shown)
    asked = shown.cluster.get(Certificate, "proxy-tls", namespace=names.PLATFORM_NAMESPACE)
    give(shown, "proxy-tls", authority)

    assert asked["spec"] == {
        "secretName": "proxy-tls",
        "dnsNames": [HOST, f"*.{HOST}"],
        "issuerRef": {"name": "by-dns", "kind": "ClusterIssuer"},
    }
    _wait_for_certificate(shown, authority)
    assert _running(shown) == before
    assert before.keys() == first


def test_a_given_certificate_is_served_and_followed(shown: World, tmp_path: Path) -> None:
    """The one in the Secret that the stack file names; when another lies there, that, without a new pod or Envoy."""
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    give(shown, "ours", first)
    _with_tls(shown, {"kind": "secret", "name": "ours"})
    _wait_for_certificate(shown, first)
    before = _running(shown)
    give(shown, "ours", second)
    _wait_for_certificate(shown, second)

    assert not serves(shown, STORAGE, PORT, first.ca)
    assert _running(shown) == before


def _with_tls(world: World, tls: dict[str, Any]) -> None:
    """Change where the proxy has its certificate from, for good."""
    world.edit(lambda config: config["gpu-runtime:platform"]["browser"].update(tls=tls))
    status, said = attempt(world.engine(), "up", "--yes", *WITH_PACK)
    assert status == 0, said
    wait_until(lambda: rolled_out(world, names.PROXY), "the pods of before to go")


def _containers(pod: Any) -> list[Any]:
    """Give the status of each container of *pod*, once the kubelet has told of them."""
    return [*(pod.status.containerStatuses or ()), *(pod.status.initContainerStatuses or ())]


def _wait_for_certificate(world: World, authority: Authority) -> None:
    def served() -> bool:
        hasten(world, pods(world))
        return serves(world, STORAGE, PORT, authority.ca)

    wait_until(served, f"the certificate of {authority.name}")


def _running(world: World) -> dict[str, int]:
    """Give the pods of the proxy, with how often a container of each was started again."""
    return {pod.metadata.uid: _restarts(pod) for pod in pods(world)}


@contextmanager
def _half_read(world: World, begin: int = 0) -> Iterator[tuple[bytearray, http.client.HTTPResponse]]:
    """Begin to read the file there: give what came, and what gives the rest."""
    headers = {"Host": f"{STORAGE}:{PORT}", "Range": f"bytes={begin}-", **signed(world)}
    with closing(_soon_opened(world)) as connection:
        connection.request("GET", FILE, headers=headers)
        answer = connection.getresponse()
        yield bytearray(answer.read(1 << 20)), answer


TRIES = 1000
"""Of a client that comes again at once where nobody listens, which costs a millisecond: half of them find the other."""


def _soon_opened(world: World) -> http.client.HTTPConnection:
    for _ in range(TRIES):
        with suppress(OSError):
            return opened(world)
    pytest.fail(f"nobody answers, {TRIES} times")


def _what_came(answer: http.client.HTTPResponse) -> bytes:
    """Read until the end, or until somebody hangs up."""
    got = bytearray()
    with suppress(http.client.IncompleteRead, OSError):
        while more := answer.read(1 << 16):
            got.extend(more)
    return bytes(got)


def _serving(world: World) -> list[Any]:
    """Give the pods of the proxy that a client has a connection to."""
    return [pod for pod in pods(world) if connected(pod.metadata.uid, names.PROXY_PORT)]


def _restarts(pod: Any) -> int:
    """Say how often containers of *pod* were started again."""
    return sum(one.restartCount for one in _containers(pod))


def _everybody(world: World) -> list[Any]:
    """Give the pods that serve a file: of the proxy, and of the browser."""
    return [*pods(world), *pods(world, names.selector(BROWSER, "dataset"), "lab-a")]


def _kill(among: list[Any], program: str) -> list[Any]:
    """Kill every process of *program* in those pods, and nothing else; give the pods that had one, as they were."""
    killed = [pod for pod in among if kill(pod.metadata.uid, program)]
    assert killed, f"no {program} runs there"
    return killed


def _wait_for(world: World, killed: list[Any]) -> None:
    """Wait until each pod that lost a process has it again: until then a new client may be sent to it in vain."""

    def back(old: Any) -> bool:
        now: Any = world.cluster.get(Pod, old.metadata.name, namespace=old.metadata.namespace)
        return _restarts(now) > _restarts(old) and is_ready(now)

    wait_until(lambda: all(map(back, killed)), "those that were killed to return")
