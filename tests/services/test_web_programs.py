"""Jupyter and TensorBoard themselves behind the real Envoy, begun as docs/access.md says: what their people get."""

import base64
import http
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.services.chromium import ENTER, SHIFT, chromium
from tests.services.cluster import PASSWORD, endpoint, endpoint_slice, unit
from tests.services.programs import PATIENCE, Program, cannot, run
from tests.services.proxies import HOST, Answer, Proxy, basic, proxy
from tests.services.test_browser_behind_proxy import tell
from tests.services.world import ROOT, wait_for
from tools.images.build import part_files
from tools.images.recipes import ENVOY

ALICE = basic("alice", PASSWORD)

CELL: dict[str, Any] = {"cell_type": "code", "id": "one", "metadata": {}, "outputs": [], "execution_count": None}
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
CELLS = [{**CELL, "source": "print(6 * 7, 'said')"}]
NOTEBOOK = {"nbformat": 4, "nbformat_minor": 5, "metadata": KERNEL, "cells": CELLS}

WRITES = """
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

writer = EventFileWriter("runs/first run")
for step, loss in enumerate((4, 2, 1)):
    value = Summary.Value(tag="train/loss", simple_value=loss)
    writer.add_event(Event(wall_time=1000, step=step, summary=Summary(value=[value])))
writer.close()
"""

IDLE = "return !!document.querySelector('.jp-Notebook .cm-content') && document.body.innerText.includes('| Idle')"
PRINTED = "return [...document.querySelectorAll('.jp-OutputArea-output')].map(it => it.textContent.trim())"


@dataclass
class Shown:
    """A program of a unit, and the proxy before it."""

    program: Program
    proxy: Proxy
    host: str

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"https://{self.host}"

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Ask as Alice, unless another Authorization is said; an underscore in a header's name is a hyphen."""
        said = {**ALICE, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.proxy.ask(path, self.host, method=method, headers=said)

    def asked(self) -> list[tuple[str, int, str, str]]:
        """Give what pages asked for: user, status, method and path. Left out is how the browser was led to sign in."""
        log = [(str(one["user"]), int(one["status"]), one["method"], one["path"]) for one in self.proxy.log]
        log = [one for one in log if one[3] != "/favicon.ico"]  # the browser's own wish, of an address that is no page
        answered = {(method, path) for user, _, method, path in log if user == "alice"}
        return [one for one in log if one[1] != http.HTTPStatus.UNAUTHORIZED or one[2:] not in answered]


def documented(name: str) -> tuple[list[str], dict[str, Any]]:
    """Give the program and the port of the unit *name* in the page's example."""
    blocks = [block.partition("```")[0] for block in (ROOT / "docs/access.md").read_text().split("```yaml\n")[1:]]
    (said,) = (units[name] for block in blocks if name in (units := yaml.safe_load(block).get("units", {})))
    return [*said["command"], *said["args"]], said["ports"][0]


def show(folder: Path, name: str) -> Iterator[Shown]:
    """Run the unit *name* of the page's example, whose /workspace is *folder*, behind a proxy of its own."""
    argv, port = documented(name)
    program = Program(folder, port["port"], *(word.replace("/workspace", str(folder)) for word in argv))
    try:
        wait_for(program.serves, f"{name} serves", PATIENCE)
        with proxy(part_files(ENVOY) / "envoy", folder / "proxy", upstream=9) as made:
            service = unit(name, "lab-a", port["name"])
            there = endpoint_slice(service, {port["name"]: program.door.port}, endpoint("lab-a", "127.0.0.1"))
            tell(made, [service], [there])
            shown = Shown(program, made, f"{port['name']}--{name}--lab-a.{HOST}")
            wait_for(lambda: shown.ask("/").status in (200, 302), f"{name} to be shown")
            yield shown
    finally:
        program.end()


@pytest.fixture(scope="module", autouse=True)
def networks() -> None:
    """Skip where a program cannot have a network of its own."""
    if why := cannot():
        pytest.skip(why)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Give JupyterLab with a notebook of one line."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "deep/er").mkdir(parents=True)
    (folder / "deep/er/a b.ipynb").write_text(json.dumps(NOTEBOOK))
    yield from show(folder, "notebook")


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Give TensorBoard with a curve of three points."""
    folder = tmp_path_factory.mktemp("curves")
    run(folder, "python", "-c", WRITES)
    yield from show(folder, "curves")


def assert_well_told(shown: Shown) -> None:
    """Nothing that a page asked for was refused; its program was told who looks, and nothing to sign in with."""
    heard = bytes(shown.program.door.heard)
    assert [one for one in shown.asked() if one[1] >= http.HTTPStatus.BAD_REQUEST] == []
    assert b"x-forwarded-user: alice" in heard
    assert PASSWORD.encode() not in heard
    assert ALICE["Authorization"].removeprefix("Basic ").encode() not in heard


def test_a_notebook_runs_in_a_browser(notebook: Shown, tmp_path: Path) -> None:
    """Who signed in opens it, runs its cell by a socket and sees what it printed; the program gets no password."""
    with chromium(tmp_path, HOST, notebook.proxy.places.https) as person:
        person.get(f"https://alice:{PASSWORD}@{notebook.host}/api")
        person.get(f"{notebook.url}/lab/tree/deep/er/a%20b.ipynb")
        wait_for(lambda: person.run(IDLE), "the kernel is idle", PATIENCE)
        person.press(".jp-Notebook .cm-content", SHIFT + ENTER)
        wait_for(lambda: person.run(PRINTED) == ["42 said"], "the cell's answer", PATIENCE)
    assert_well_told(notebook)

    def told() -> bool:
        sockets = [path for _, status, _, path in notebook.asked() if status == http.HTTPStatus.SWITCHING_PROTOCOLS]
        return any(path.endswith("/channels") for path in sockets)

    wait_for(told, "the log to tell of the socket, which it does at its end")


def test_a_kernel_is_for_its_own_pages(notebook: Shown) -> None:
    """Without a password, and from a page of another origin, nothing is begun and no socket opened, nor heard of."""
    cookies = notebook.ask("/lab").headers.get_all("set-cookie", [])
    (cookie,) = (one.partition(";")[0] for one in cookies if one.startswith("_xsrf="))
    own = {"Origin": notebook.url, "Cookie": cookie, "X_XSRFToken": cookie.removeprefix("_xsrf=")}
    other = {**own, "Origin": f"https://board--curves--lab-a.{HOST}"}
    assert notebook.ask("/api/kernels", "POST", **other).body == b"403 forbidden\n"
    assert notebook.ask("/api/kernels", "POST", **{**own, "X_XSRFToken": "x"}).status == 403
    begun = notebook.ask("/api/kernels", "POST", **own)
    assert begun.status == 201

    path = f"/api/kernels/{json.loads(begun.body)['id']}/channels"
    key = base64.b64encode(os.urandom(16)).decode()
    socket = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Key": key, "Sec_WebSocket_Version": "13"}
    assert notebook.ask(path, **socket, **own).status == 101
    assert notebook.ask(path, **socket, **other).status == 403
    assert notebook.ask(path, **socket, **own, **basic("alice", "wrong")).status == 401
    assert bytes(notebook.program.door.heard).count(f"GET {path}".encode()) == 1


def test_curves_are_drawn(curves: Shown, tmp_path: Path) -> None:
    """What was written is shown, with every part that the page asks for."""
    with chromium(tmp_path, HOST, curves.proxy.places.https) as person:
        person.get(f"https://alice:{PASSWORD}@{curves.host}/icon_bundle.svg")
        person.get(curves.url)
        wait_for(lambda: "loss" in person.run("return document.body.innerText"), "the curve", PATIENCE)
    assert_well_told(curves)

    points = json.loads(curves.ask("/data/plugin/scalars/scalars?run=first%20run&tag=train%2Floss").body)
    assert [point[1:] for point in points] == [[0, 4], [1, 2], [2, 1]]
