"""What people are told of the pages that a stack shows."""

import asyncio
import json
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stacks.keys import Keys
from stacks.load import parse
from stacks.outputs import outputs
from stacks.resolve import Stack
from tests.services.world import free_port
from tests.stack_files import FILES, raw
from tools.browse import serve
from tools.shell import ToolError
from tools.stack import pages
from tools.stack.client import write_client_files
from tools.stack.workspace import Workspace

LOCAL = next(file for file in FILES if file.stem == "Pulumi.local")
AT = "files.localhost:31443"


def local(**changes: Any) -> Stack:
    """Give the local stack."""
    return Stack(parse({**raw(LOCAL), **changes}, {"gpu-runtime:secret"}), "local")


def said(stack: Stack) -> dict[str, Any]:
    """Give what the stack says of itself once it is up, as the engine keeps it."""
    found: dict[str, Any] = json.loads(json.dumps(outputs(stack, Keys(stack))))
    return found


def test_every_page_is_listed_under_its_tenant() -> None:
    """Index, storages and ports, at the addresses that the stack's outputs have."""
    found = pages.chosen(said(local()), "")

    assert pages.as_data(found) == {
        "lab-a": {
            "index": f"https://lab-a.{AT}/",
            "storages": {"dataset": f"https://{AT}/storage/lab-a/dataset/"},
            "ports": {"http.trainer": f"https://http--trainer--lab-a.{AT}/"},
        }
    }
    assert list(pages.lines(found)) == [
        f"lab-a  https://lab-a.{AT}/",
        f"  storage dataset  https://{AT}/storage/lab-a/dataset/",
        f"  port http.trainer  https://http--trainer--lab-a.{AT}/",
    ]


def test_one_tenants_pages_are_no_others() -> None:
    """A tenant is named as a whole; one without people still has its storages; an unknown one is told who there is."""
    told = {
        "browser": {},
        "pages": {"a": "https://a.b/"},
        "storages": {"s.a": "https://b/s", "s.ba": "https://b/t"},
        "ports": {},
    }

    assert pages.as_data(pages.chosen(told, "a")) == {
        "a": {"index": "https://a.b/", "storages": {"s": "https://b/s"}, "ports": {}}
    }
    assert list(pages.lines(pages.chosen(told, "ba"))) == ["ba  (nobody may sign in)", "  storage s  https://b/t"]
    with pytest.raises(ToolError, match="no tenant 'c' has pages; there are a, ba"):
        pages.chosen(told, "c")
    with pytest.raises(ToolError, match=r"no proxy \(gpu-runtime:platform.browser\)"):
        pages.chosen({"units": {}}, "")


def test_up_ends_with_a_line_that_looks(tmp_path: Path) -> None:
    """It names the rig's own address, the authority's file and the user, and no password; quotes are a shell's."""
    stack, workspace = local(), Workspace(tmp_path)
    invited = pages.invitation(workspace, stack, said(stack), "10.0.0.2")

    assert invited is not None
    words, command = invited
    assert f"As lab-a, to https://lab-a.{AT}/" in words
    assert "make -s password TENANT=lab-a)" in command
    assert f"/browser-ca.pem --connect-to ::10.0.0.2:31443 https://lab-a.{AT}/" in command


def test_without_pages_nobody_is_invited(tmp_path: Path) -> None:
    """A stack without a proxy, or without people, ends with the login alone."""
    base = raw(LOCAL)
    nobody = local(tenants={"lab-a": {**base["tenants"]["lab-a"], "webUsers": []}})

    assert pages.invitation(Workspace(tmp_path), nobody, said(nobody), "10.0.0.2") is None


def test_of_several_users_one_is_named(tmp_path: Path) -> None:
    """`make password` must be told which."""
    stack = local(tenants={"lab-a": {**raw(LOCAL)["tenants"]["lab-a"], "webUsers": ["zoe", "bob"]}})
    invited = pages.invitation(Workspace(tmp_path), stack, said(stack), "10.0.0.2")

    assert invited is not None
    assert "make -s password TENANT=lab-a USER=zoe)" in invited[1]


def test_whom_to_trust_is_a_file(tmp_path: Path) -> None:
    """The stack's own authority is written beside ssh_config, as it is."""
    stack, workspace = local(), Workspace(tmp_path)
    write_client_files(workspace, said(stack))

    assert workspace.browser_ca.read_text() == Keys(stack).browser_authority


def test_a_browser_of_this_machine_is_led_on() -> None:
    """Bytes pass both ways, each side's end is told to the other, and a rig that is away ends the connection."""
    port, target, gone = free_port(), free_port(), free_port()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"got " + await reader.read())
        writer.close()

    async def both() -> tuple[bytes, bytes]:
        server = await asyncio.start_server(answer, "127.0.0.1", target)
        doors = [asyncio.create_task(serve(port, "127.0.0.1", target))]
        doors.append(asyncio.create_task(serve(gone, "127.0.0.1", free_port())))
        found = await ask(port), await ask(gone)
        for door in doors:
            door.cancel()
        server.close()
        return found

    assert asyncio.run(both()) == (b"got hello", b"")


async def ask(port: int) -> bytes:
    """Say hello once somebody listens; give what comes back."""
    while True:
        with suppress(ConnectionRefusedError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            break
        await asyncio.sleep(0.01)
    writer.write(b"hello")
    writer.write_eof()
    found = b""
    with suppress(ConnectionResetError):
        found = await reader.read()
    writer.close()
    return found


def test_a_port_that_is_taken_is_named() -> None:
    """In one sentence."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        with pytest.raises(ToolError, match=f"port {port} of this machine is taken"):
            asyncio.run(serve(port, "127.0.0.1", 1))
