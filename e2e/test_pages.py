"""The main job's pages, as people look at them: the line that `make up` ends with, and what `make urls` lists."""

import json
import os
import subprocess
from typing import Any

import pytest

from components import names
from e2e.world import World, wait_until
from tools import password, toolchain
from tools.stack import pages
from tools.stack.engine import REPOSITORY
from tools.stack.reading import read_file

pytestmark = pytest.mark.e2e

TENANT = "lab-a"
ASKED = f"$(make -s password TENANT={TENANT})"


@pytest.fixture(scope="module")
def line(world: World) -> str:
    """Give the command that `make up` prints, but for the password, which that stack's own `make` would know."""
    toolchain.ensure_debian("curl")
    engine = world.workspace.engine()
    stack = read_file(world.workspace.config_file, world.workspace.stack, engine.environment)
    invited = pages.invitation(world.workspace, stack, engine.outputs(), str(world.rig.node_ip))
    assert invited is not None
    assert ASKED in invited[1]
    return invited[1].replace(ASKED, "$KNOWN")


def known(world: World) -> str:
    """Give what `make password` prints."""
    engine = world.workspace.engine()
    stack = read_file(world.workspace.config_file, world.workspace.stack, engine.environment)
    access, user = password.chosen(stack, TENANT, None)
    secret = engine.output("config", "get", f"{names.PROJECT}:secret").strip()
    return password.password(stack, secret, access, user)


def run(line: str, said: str) -> "subprocess.CompletedProcess[str]":
    """Paste *line* into a shell that knows the password *said*; follow to the storage's own host."""
    argv = ["bash", "-c", f"{line} --silent --show-error --fail --location-trusted"]
    environment = {**os.environ, "KNOWN": said}
    return subprocess.run(argv, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)


def at(line: str, url: str) -> str:
    """Give the same command for another address."""
    return f"{line.rpartition(' ')[0]} {url}"


def test_the_printed_line_shows_the_index(world: World, line: str) -> None:
    """It trusts the stack's own authority and nobody else, signs in, and gets the tenant's index; not without."""
    secret = known(world)
    wait_until(lambda: run(line, secret).returncode == 0, "the index of the tenant")

    assert "<h1>" in run(line, secret).stdout
    assert "401" in run(line, "wrong").stderr
    assert run(line.replace("--cacert", "--capath"), secret).returncode == 60  # nobody whom it trusts said so


def test_every_listed_page_is_there(world: World, line: str) -> None:
    """What `make urls` lists answers who signed in, and a storage has what was prepared in it."""
    told, secret = world.workspace.engine().outputs(), known(world)
    listed: dict[str, Any] = pages.as_data(pages.chosen(told, TENANT))[TENANT]
    dataset = at(line, listed["storages"]["dataset"])
    wait_until(lambda: run(dataset, secret).returncode == 0, "the storage's browser")
    found = json.loads(run(f"{dataset}?json", secret).stdout)

    assert [one["name"] for one in found["paths"]] == ["made-at"]
    assert run(f"{dataset}made-at", secret).stdout == world.ssh("trainer.lab-a", "cat /data/made-at")
