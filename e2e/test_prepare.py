"""Storages are filled on a real cluster: before their units, once, never over running units, and failures are told."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import PersistentVolumeClaim, Pod
from status.storage_states import StorageState

from components import names
from e2e.conftest import on_a_fresh_rig
from e2e.netns import commands, kill
from e2e.phases import States, during, states
from e2e.world import WITH_PACK, Config, World, attempt, wait_until
from tools import toolchain
from tools.rig.outside import SPACE, outside
from tools.stack import local

pytestmark = pytest.mark.e2e

WEB, PORT = "44.12.34.56", 8080
CUTTING = Path(__file__).with_name("cutting.py")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a rig, and a web server for its pods that hangs up once."""
    with on_a_fresh_rig(tmp_path_factory.mktemp("prepare"), "prepare") as world:
        local.make_ready(world.workspace, world.rig)
        with outside(world.rig, WEB):
            python = [os.path.realpath(sys.executable), "-ISBc", CUTTING.read_text()]
            world.rig.exec("ip", "netns", "exec", SPACE, *python, str(PORT), "0123456789abcdef", "65536")
            yield world


@dataclass
class First:
    """The first `up`, of which some jobs fail, and one is struck twice: killed, and its pod deleted."""

    world: World
    status: int = 0
    told: str = ""
    states: dict[str, list[StorageState]] = field(default_factory=dict)
    """Of each storage meanwhile."""
    struck: list[str] = field(default_factory=list)
    """The pods, by name."""

    def strike(self, now: States) -> None:
        """Kill what fills `struck` while it is at it; the next time delete its pod; the third time let it be."""
        if "struck" not in now or now["struck"].prepare.reason != "Preparing" or len(self.struck) == 2:
            return
        pod = newest(self.world, "struck").metadata
        if pod.name not in self.struck and any("sleep" in one for one in commands(pod.uid).values()):
            if self.struck:
                self.world.cluster.delete(Pod, pod.name, namespace="lab-a")
            else:
                assert kill(pod.uid, "sh")
            self.struck.append(pod.name)


@pytest.fixture(scope="module")
def first(bare: World) -> First:
    """Run the first `up`."""
    made = First(bare)
    (made.status, made.told), made.states = during(bare, lambda: up(bare), made.strike)
    return made


def up(world: World, *more: str) -> tuple[int, str]:
    """Run what `make up` runs, without its own preparations; a bare `pulumi up` would do alike."""
    return attempt(world.engine(), "up", "--yes", "--continue-on-error", "--suppress-progress", *WITH_PACK, *more)


def storages(config: Config) -> dict[str, Any]:
    """Give the storages that a stack file says."""
    found: dict[str, Any] = config["gpu-runtime:tenants"]["lab-a"]["storages"]
    return found


def unit(config: Config, name: str) -> dict[str, Any]:
    """Give a unit that a stack file says."""
    found: dict[str, Any] = config["gpu-runtime:tenants"]["lab-a"]["units"][name]
    return found


def job(world: World, storage: str) -> Any:
    """Give the Job that fills a storage, as its claim names it."""
    claim: Any = world.cluster.get(PersistentVolumeClaim, names.claim(storage), namespace="lab-a")
    return world.cluster.get(Job, claim.metadata.annotations[names.PREPARE_ANNOTATION], namespace="lab-a")


def said(world: World, storage: str) -> str:
    """Give what the last pod that filled a storage said."""
    return "".join(world.cluster.log(newest(world, storage).metadata.name, namespace="lab-a", container="prepare"))


def newest(world: World, storage: str) -> Any:
    """Give the last pod that filled a storage."""
    labels: dict[str, Any] = dict(names.selector("prepare", storage))
    pods: list[Any] = list(world.cluster.list(Pod, namespace="lab-a", labels=labels))
    return max(pods, key=lambda pod: pod.metadata.creationTimestamp)


def in_unit(world: World, command: str) -> str:
    """Run a command in unit `user`, which has no login."""
    kubectl = [str(toolchain.ensure("kubectl")["kubectl"]), f"--kubeconfig={world.rig.kubeconfig}", "--namespace=lab-a"]
    argv = [*kubectl, "exec", world.pod("user"), "--container=unit", "--", "sh", "-c", command]
    return subprocess.run(argv, check=False, capture_output=True, text=True).stdout


def there(world: World, name: str) -> bool:
    """Say whether a unit has a Deployment."""
    found: list[Any] = list(world.cluster.list(Deployment, namespace="lab-a"))
    return names.unit(name) in {one.metadata.name for one in found}


def test_a_failed_prepare_is_told_with_its_last_lines(bare: World, first: First) -> None:
    """`up` fails for each with its reason, and with what it said last; a unit that needs it has no pod."""
    status, told = first.status, first.told

    assert status != 0
    assert "BackoffLimitExceeded" in told
    assert "the last words" in told
    assert "still at it" in told
    assert not there(bare, "waiting")


def test_the_others_are_filled(bare: World, first: First) -> None:
    """A copy is compared with its source, a download that was cut went on, and their units run, data and all."""
    del first
    copied, fetched = said(bare, "copy"), said(bare, "web")

    assert "copied and compared: 2 files, 1 folders, 1 links" in copied
    assert "the connection ended after 524288 of 1048576 bytes; going on" in fetched
    assert "sha256 as wanted" in fetched
    wait_until(lambda: "row" in in_unit(bare, "cat /data/rows"), "unit user to run")
    assert in_unit(bare, "stat -c %a /data/in/x; readlink /data/in/link").split() == ["751", "x"]


def test_who_was_struck_tries_again(bare: World, first: First) -> None:
    """Killed half way, then without its pod, a prepare begins again where it was, is told to, and ends well."""
    phases = [(one.prepare.phase.value, one.prepare.reason) for one in first.states["struck"]]
    words = {one.prepare.message for one in first.states["struck"] if one.prepare.reason == "Retrying"}

    assert len(set(first.struck)) == 2
    assert phases.index(("Running", "Preparing")) < phases.index(("Pending", "Retrying"))
    assert any("container prepare ended with 137" in one for one in words), words
    assert states(bare)["struck"].prepare.phase.value == "Succeeded"
    wait_until(lambda: in_unit(bare, "cat /struck/tries /struck/whole") == "try\ntry\ntry\nwhole\n", "the data whole")


def test_the_next_up_tries_again_with_what_is_said_then(bare: World, first: First) -> None:
    """What failed is made anew: with another command, or with more time for the same; the rest is left alone."""
    del first
    before = job(bare, "raw").metadata.uid, job(bare, "late").metadata.uid

    def mended(config: Config) -> None:
        storages(config)["failing"]["prepare"]["command"] = ["sh", "-c", "echo well > well"]
        storages(config)["late"]["prepare"]["timeoutSeconds"] = 300

    mend(bare, mended)
    status, told = up(bare)

    assert status == 0, told
    assert there(bare, "waiting")
    assert job(bare, "raw").metadata.uid == before[0]
    assert job(bare, "late").metadata.uid != before[1]
    assert job(bare, "late").spec.template.spec.activeDeadlineSeconds == 300


def mend(world: World, change: Any) -> None:
    """Change the stack file for good."""
    with world.changed(change):
        text = world.workspace.config_file.read_text()
    world.workspace.config_file.write_text(text)


def test_a_job_that_is_gone_does_nothing_again(bare: World, first: First) -> None:
    """Deleted by hand and refreshed, a Job is made again, finds its marker, and the data and its unit are as before."""
    del first
    pod = bare.pod("user")
    for storage in ("raw", "copy"):
        bare.cluster.delete(Job, job(bare, storage).metadata.name, namespace="lab-a")
    status, told = up(bare, "--refresh")

    assert status == 0, told
    assert "already prepared" in said(bare, "raw")
    assert "already prepared" in said(bare, "copy")
    assert bare.pod("user") == pod
    assert in_unit(bare, "cat /data/rows") == "row\n"


def test_new_content_over_a_running_unit_is_refused(bare: World, first: First) -> None:
    """The preview names the unit, also where nobody runs `make`, and nothing was done."""
    del first
    before = job(bare, "copy").metadata.uid

    def again(config: Config) -> None:
        storages(config)["copy"]["prepare"]["revision"] = 1

    with bare.changed(again):
        status, told = attempt(bare.engine(), "up", "--yes")

    assert status != 0
    assert "storage copy.lab-a would be filled anew over its data, and unit user.lab-a may use that" in told
    assert job(bare, "copy").metadata.uid == before


def test_a_storage_is_filled_anew_while_its_unit_rests(bare: World, first: First) -> None:
    """Stopped in the very same `up`, the unit has ended before the Job starts; what it had beside the copy stays."""
    del first
    in_unit(bare, "echo mine > /data/mine; echo changed > /data/rows")

    def again(config: Config) -> None:
        storages(config)["copy"]["prepare"]["revision"] = 1
        unit(config, "user")["running"] = False

    mend(bare, again)
    (stopped, told), seen = during(bare, lambda: up(bare))
    recovery = {one.prepare.recovery.value for one in seen["copy"]}
    mend(bare, lambda config: unit(config, "user").pop("running"))
    started, told_later = up(bare)

    assert stopped == 0, told
    assert started == 0, told_later
    assert "Running" in recovery
    assert states(bare)["copy"].prepare.recovery.value == "Succeeded"
    wait_until(lambda: in_unit(bare, "cat /data/rows /data/mine") == "row\nmine\n", "the copy beside the unit's own")
