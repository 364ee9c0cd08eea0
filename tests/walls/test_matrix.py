"""The matrix of stacks: what is open in it, what it says why, and that no policy is there for nothing."""

import copy
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from policy.law import set_violations
from stacks.resolve import Stack
from tools.shell import ToolError
from tools.stack.workspace import Workspace
from tools.walls import stacks
from tools.walls.matrix import Cell, matrix
from tools.walls.stacks import nominal
from tools.walls.table import MOST_COLUMNS, Table, table

ROOT = Path(__file__).parents[2]
LOCAL = Workspace()
WALLS = Workspace(stack="walls", source=ROOT / "e2e" / "Pulumi.walls.yaml")

PLATFORM = """
frps -> pod: frps TCP 7001
frps -> service: frps TCP 7001
frps -> pod: gate TCP 9000
frps -> service: gate TCP 9000
outside -> pod: frps TCP 1337
outside -> node: node port of gpu-runtime/ssh TCP {port}
unit -> pod: frps TCP 7000
unit -> service: frps TCP 7000
gate -> API server: by address TCP 443
gate -> API server: by address TCP 6443
gate -> API server: its Service TCP 443
"""
PROXY = """
outside -> pod: proxy TCP 8080
outside -> pod: proxy TCP 8443
outside -> node: node port of gpu-runtime/proxy TCP 31443
proxy -> pod: browser of another tenant TCP 5000
proxy -> service: browser of another tenant TCP 5000
proxy -> pod: unit of another tenant TCP 8888
proxy -> API server: by address TCP 443
proxy -> API server: by address TCP 6443
proxy -> API server: its Service TCP 443
proxy -> site: 10.128.255.252/30 TCP 443
proxy -> site: 10.128.255.254/32 TCP 443
"""
NODE_OF_THE_API_SERVER = {"gate -> site: 10.128.255.252/30 TCP 443", "gate -> site: 10.128.255.254/32 TCP 443"}
"""The rig's API server answers at its node, which is also a range of the cluster."""
DNS = ("its pods UDP 53", "its pods TCP 53", "its Service UDP 53", "its Service TCP 53")
RESOLVE = "".join(f"{who} -> cluster DNS: {where}\n" for who in ("prepare", "probe", "unit") for where in DNS)
EVERY_PORT = ("TCP 22", "TCP 25", "TCP 80", "TCP 443", "UDP 53", "UDP 443")


@cache
def stack(workspace: Workspace) -> Stack:
    return nominal(workspace)


def cells(workspace: Workspace, manifests: list[Any] | None = None) -> list[Cell]:
    return list(matrix(stack(workspace), manifests=manifests).cells())


def lines(made: Table) -> Iterator[str]:
    """Write every open field of a table, one to a line."""
    for row in made.rows:
        for column, word in zip(made.columns, row.words, strict=True):
            for name in row.names:
                yield from (f"{column} -> {row.group}: {name} {port}" for port in row.ports if word not in {"-", ""})


def test_what_is_open_in_the_local_stack() -> None:
    """Of all that a pod might try, this is open, and nothing else."""
    places = [f"internet: IPv{version} {port}" for version in (4, 6) for port in EVERY_PORT]
    internet = [f"{who} -> {place}" for who in ("prepare", "probe", "unit") for place in places]
    expected = {*PLATFORM.format(port=31337).split("\n"), *PROXY.split("\n"), *RESOLVE.split("\n"), *internet} - {""}
    expected |= NODE_OF_THE_API_SERVER

    assert set(lines(table(cells(LOCAL)))) == expected


def opened(found: list[Cell], source: str, group: str) -> set[tuple[str, str]]:
    """Name the open places of *group* for one source, with their ports."""
    return {
        (cell.place.name, f"{cell.place.protocol} {cell.place.port}")
        for cell in found
        if cell.open and (cell.source.name, cell.place.group) == (source, group)
    }


def test_what_tenants_open_for_themselves() -> None:
    """An exposed port, an internal tenant, narrowed ports and holes open what they say, for whom they say it."""
    found = cells(WALLS)
    mirror = {("10.77.0.0/24", "TCP 8443"), ("10.77.0.0/24", "UDP 5353")}
    every = {"TCP 2222", "TCP 9", "UDP 9"}

    assert opened(found, "lab-a/unit-silent", "pod") == {("lab-a/unit-trainer", "TCP 8888")}
    assert opened(found, "lab-b/unit-one", "pod") == {
        ("gpu-runtime/frps-0", "TCP 7000"),
        ("gpu-runtime/frps-1", "TCP 7000"),
        *(("lab-b/unit-two", port) for port in {*every, "TCP 8888"}),
    }
    assert opened(found, "lab-a/unit-silent", "allowed") == mirror
    assert opened(found, "lab-b/unit-one", "allowed") == mirror | {("10.78.0.5/32", "TCP 5000")}
    assert opened(found, "lab-b/unit-one", "internet") == {
        (f"IPv{version}", port) for version in (4, 6) for port in ("TCP 443", "UDP 443")
    }
    assert opened(found, "lab-a/unit-silent", "site") == {("44.14.0.0/16", "TCP 443"), ("44.14.0.0/16", "UDP 443")}
    assert opened(found, "lab-b/unit-one", "site") == set()


def test_nothing_blocked_is_open() -> None:
    """No pod reaches any built-in range, metadata service or kubelet, and none but the gate the API server."""
    groups = {"blocked", "metadata", "API server"}
    found = [cell for cell in cells(WALLS) if cell.place.group in groups or cell.place.name == "kubelet"]

    assert len(found) > 1000
    who = {(cell.source.name.partition(" ")[0], cell.place.group) for cell in found if cell.open}
    assert who == {("gpu-runtime/gate", "API server")}


def policies(workspace: Workspace) -> list[str]:
    return [
        f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}"
        for manifest in stack(workspace).manifests()
        if manifest["kind"] == "NetworkPolicy"
    ]


def verdicts(manifests: list[Any]) -> list[bool]:
    return [cell.open for cell in cells(WALLS, manifests)]


@pytest.mark.parametrize("policy", policies(WALLS))
def test_no_policy_can_be_lost_unnoticed(policy: str) -> None:
    """Without any single policy the matrix is another one, or the law objects: none is there for nothing."""
    manifests = stack(WALLS).manifests()
    kept = [
        manifest
        for manifest in manifests
        if manifest["kind"] != "NetworkPolicy"
        or f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}" != policy
    ]

    assert len(kept) == len(manifests) - 1
    assert set_violations(kept) or verdicts(kept) != verdicts(manifests)


def test_a_policy_that_somebody_adds_shows() -> None:
    """A later policy that opens all in a tenant's namespace shows in the matrix: nothing is taken on trust."""
    hostile = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "later", "namespace": "lab-a"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]},
    }
    found = cells(WALLS, [*stack(WALLS).manifests(), hostile])

    assert opened(found, "lab-a/unit-silent", "metadata")
    assert not opened(found, "lab-b/unit-one", "metadata")


def test_many_units_fit_a_screen() -> None:
    """The matrix of many units that are alike is as small as that of one, and takes seconds."""
    said = stack(WALLS).config
    one = said.tenants["lab-a"].units["worker"]
    units = {f"u{number}": one for number in range(20)}
    tenants = {f"t{number}": said.tenants["lab-a"].model_copy(update={"units": units}) for number in range(3)}
    large = Stack(said.model_copy(update={"tenants": copy.deepcopy(tenants)}), "walls")
    started = time.process_time()
    made = table(matrix(large).cells())

    assert len(made.columns) <= MOST_COLUMNS
    assert len(made.rows) < 40
    assert time.process_time() - started < 60


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tools.walls", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_command_prints_cells_as_json() -> None:
    """With --json each line is a cell: who, where, verdict, reason."""
    done = run("--stack", "prod", "--json")
    first = json.loads(done.stdout.splitlines()[0])

    assert done.returncode == 0
    assert set(first) == {"source", "destination", "address", "protocol", "port", "open", "why"}


def test_what_cannot_be_read_is_refused_with_a_sentence() -> None:
    """A stack without a file ends with status 2 and one sentence."""
    done = run("--stack", "nowhere")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no stacks/Pulumi.nowhere.yaml")
    assert "Traceback" not in done.stderr


def test_the_local_stack_is_the_file_that_people_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody writes is seen at once, and not what was applied last; what is wrong in it is refused."""
    source = Workspace().source.read_text()
    edited = tmp_path / "Pulumi.local.yaml"
    monkeypatch.setattr(stacks, "Workspace", lambda: Workspace(source=edited))

    edited.write_text(source.replace("blockedCidrs: []", "blockedCidrs: [52.0.0.0/24]"))
    assert "52.0.0.0/24" in stacks.stack_of("local").egress.site
    edited.write_text(source.replace("image: python\n          command", "image: workspace\n          command"))
    assert stacks.stack_of("local").units["trainer.lab-a"].image.startswith("localhost/gpu-runtime/workspace@")
    edited.write_text(source.replace("blockedCidrs: []", "blockedCidrs: [banana]"))
    with pytest.raises(ToolError, match="banana"):
        stacks.stack_of("local")
