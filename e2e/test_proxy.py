"""A storage in a browser, through the proxy, on a real cluster: who gets in, what comes, and what no roll-out cuts."""

import hashlib
import http.client
import os
import random
import signal
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Pod

from components import names
from e2e.conftest import made, on_a_fresh_rig
from e2e.world import World, wait_until
from tools import password
from tools.stack.reading import read_file

pytestmark = pytest.mark.e2e

HOST, PORT = "files.gpu-runtime.test", 31442
STORAGE = f"dataset--lab-a.{HOST}"
FILE = "/storage/lab-a/dataset/big"
CONTENT = random.Random(7).randbytes(1 << 20) * 64  # noqa: S311 - what the prepare job writes, not a secret
"""As e2e/Pulumi.proxy.yaml fills it."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a stack whose storage is behind the proxy, and serves."""
    with on_a_fresh_rig(tmp_path_factory.mktemp("proxy"), "proxy") as bare:
        world = made(bare)
        wait_until(lambda: ask(world, "/", headers=signed(world)).status == 302, "the storage to be led to")
        yield world


@cache
def signed(world: World, tenant: str = "lab-a") -> dict[str, str]:
    """Give the header of who knows the password of a tenant."""
    workspace, engine = world.workspace, world.workspace.engine()
    stack = read_file(workspace.config_file, workspace.stack, engine.environment)
    access, user = password.chosen(stack, tenant, None)
    secret = engine.output("config", "get", f"{names.PROJECT}:secret").strip()
    known = password.password(stack, secret, access, user)
    return {"Authorization": f"Basic {b64encode(f'{user}:{known}'.encode()).decode()}"}


def opened(world: World, host: str = STORAGE) -> http.client.HTTPConnection:
    """Connect to the proxy's entrance."""
    return opened_at(world, host, PORT)


def opened_at(world: World, host: str, port: int) -> http.client.HTTPConnection:
    """Connect to the entrance at *port*, trusting the authority that `up` wrote down."""
    connection = http.client.HTTPSConnection(str(world.rig.node_ip), port, timeout=30)
    context = ssl.create_default_context(cafile=str(world.workspace.browser_ca))
    plain = http.client.HTTPConnection(str(world.rig.node_ip), port, timeout=30)
    plain.connect()
    connection.sock = context.wrap_socket(plain.sock, server_hostname=host)
    return connection


class Answer:
    """What a client gets."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = answer.status, answer.headers, answer.read()


def ask(world: World, path: str, host: str = STORAGE, headers: dict[str, str] | None = None) -> Answer:
    """Ask a host of the proxy for *path*."""
    with closing(opened(world, host)) as connection:
        connection.request("GET", path, headers={"Host": f"{host}:{PORT}", **(headers or {})})
        return Answer(connection.getresponse())


def pods(world: World) -> list[Any]:
    """Give the pods of the proxy that are not about to end."""
    labels: dict[str, Any] = names.component_selector(names.PROXY)
    found = world.cluster.list(Pod, namespace=names.PLATFORM_NAMESPACE, labels=labels)
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
    with closing(opened(shown)) as connection:
        connection.request("GET", FILE, headers={"Host": f"{STORAGE}:{PORT}", **signed(shown)})
        answer = connection.getresponse()
        got = answer.read(1 << 20)
        again = {"spec": {"template": {"metadata": {"annotations": {"gpu-runtime/restarted": "once"}}}}}
        shown.cluster.patch(Deployment, names.PROXY, again, namespace=names.PLATFORM_NAMESPACE)
        wait_until(lambda: _replaced(shown, before), "both pods of the proxy to be replaced")
        got += answer.read()

    assert got == CONTENT


def _replaced(world: World, before: set[str]) -> bool:
    now = pods(world)
    served = ask(world, "/storage/lab-a/dataset/", headers=signed(world)).status
    assert served == 200, "a new client is turned away while pods are replaced"
    ready = [pod for pod in now if all(status.ready for status in pod.status.containerStatuses or ())]
    return len(ready) == 2 and not before & {pod.metadata.uid for pod in ready}


def test_a_death_is_survived_by_asking_for_the_rest(shown: World) -> None:
    """Envoy is killed in the middle of a file; the other one gives the rest, and bytes are equal."""
    with closing(opened(shown)) as connection:
        connection.request("GET", FILE, headers={"Host": f"{STORAGE}:{PORT}", **signed(shown)})
        answer = connection.getresponse()
        got = answer.read(1 << 20)
        for pod in pods(shown):
            _kill(pod)
        with suppress(http.client.IncompleteRead, OSError):
            while more := answer.read(1 << 16):
                got += more
    wait_until(lambda: _alive(shown), "the proxy to serve again")
    rest = ask(shown, FILE, headers={**signed(shown), "Range": f"bytes={len(got)}-"})

    assert len(got) < len(CONTENT)
    assert got + rest.body == CONTENT


def _kill(pod: Any) -> None:
    """Kill the Envoy of *pod*, and nothing else."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile
            theirs = f"pod{pod.metadata.uid}" in (folder / "cgroup").read_text()
            if theirs and (folder / "comm").read_text() == "envoy\n":
                os.kill(int(folder.name), signal.SIGKILL)


def _alive(world: World) -> bool:
    with suppress(OSError, http.client.HTTPException):
        return ask(world, FILE, headers={**signed(world), "Range": "bytes=0-0"}).status == 206
    return False
