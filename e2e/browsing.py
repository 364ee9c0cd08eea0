"""The proxy of a stack on a rig as a client of HTTP meets it: hosts below one entrance, signed in or not."""

import http.client
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

from components import names
from e2e.world import World
from tools import password
from tools.stack.reading import read_file

HOST = "files.gpu-runtime.test"
"""The main host of every stack here that has a proxy."""

Headers = Mapping[str, str]


class Answer:
    """What a client gets."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = answer.status, answer.headers, answer.read()


@cache
def signed(world: World, tenant: str = "lab-a") -> dict[str, str]:
    """Give the header of who knows the password of a tenant of the stack."""
    workspace, engine = world.workspace, world.workspace.engine()
    stack = read_file(workspace.config_file, workspace.stack, engine.environment)
    access, user = password.chosen(stack, tenant, None)
    secret = engine.output("config", "get", f"{names.PROJECT}:secret").strip()
    known = password.password(stack, secret, access, user)
    return {"Authorization": f"Basic {b64encode(f'{user}:{known}'.encode()).decode()}"}


def opened(world: World, host: str, port: int, trusted: Path | None = None) -> http.client.HTTPConnection:
    """Connect to the entrance at *port*, trusting the authority in *trusted*, else the one that `up` wrote down."""
    address = str(world.rig.node_ip)
    context = ssl.create_default_context(cafile=str(trusted or world.workspace.browser_ca))
    plain = http.client.HTTPConnection(address, port, timeout=30)
    plain.connect()
    connection = http.client.HTTPSConnection(address, port, timeout=30)
    connection.sock = context.wrap_socket(plain.sock, server_hostname=host)
    return connection


def came(true: Callable[[], bool], times: int = 1) -> bool:
    """Say whether *true* holds, so often, of answers that came: one that was cut, as somebody ended, is none."""
    with suppress(OSError, http.client.HTTPException):
        return all(true() for _ in range(times))
    return False


def ask(
    world: World,
    at: tuple[str, int],
    path: str,
    headers: Headers,
    method: str = "GET",
    body: bytes | None = None,
) -> Answer:
    """Ask a host, at a port of the entrance, for *path*."""
    host, port = at
    with closing(opened(world, host, port)) as connection:
        connection.request(method, path, body, headers={"Host": f"{host}:{port}", **headers})
        return Answer(connection.getresponse())
