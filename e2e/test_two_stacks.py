"""A platform's stack and one of tenants alone on one cluster, with real parts; the tests run in this order.

The last ones take the guest off the platform's list, and so must stay the last.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from lightkube.resources.core_v1 import Pod, Secret
from lightkube.types import PatchType

from components import derive, names
from e2e.conftest import describe, made, on_a_fresh_rig, told_on_failure
from e2e.world import WITH_PACK, World, attempt, wait_until
from stacks.schema import PlatformKeys
from tools.doctor.__main__ import examine
from tools.doctor.findings import Status
from tools.stack import local
from tools.stack.client import ssh, wait_for_login
from tools.stack.engine import REPOSITORY
from tools.stack.reading import read_file
from tools.stack.workspace import Workspace

pytestmark = pytest.mark.e2e

HOST, VISITOR = "host.lab-a", "visitor.lab-b"
SHARED = ("state", "passphrase", "id_ed25519")
"""What both stacks' folders have in common: the backend, what opens it, and the key that logs in."""


@dataclass(frozen=True)
class Two:
    """The stack with the platform, and its guest."""

    hub: World
    guest: World


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Give both stacks, up: first the platform's, then the one that needs it."""
    folder = tmp_path_factory.mktemp("two")
    with on_a_fresh_rig(folder / "hub", "hub") as hub:
        made(hub)
        guest = beside(hub, "guest")
        try:
            yield Two(hub, made(guest))
        finally:
            guest.close()


def beside(world: World, stack: str, source: str | None = None) -> World:
    """Give a further stack on the rig of *world*, in its backend."""
    folder = world.workspace.folder.with_name(stack)
    folder.mkdir(mode=0o700)
    for name in SHARED:
        (folder / name).symlink_to(world.workspace.folder / name)
    file = REPOSITORY / "e2e" / f"Pulumi.{source or stack}.yaml"
    return World(Workspace(folder, stack, file), world.rig)


tell_on_failure = told_on_failure("two", lambda two: f"{describe(two.hub)} {gate_log(two.hub)}")


def gate_log(world: World) -> str:
    """Give what the gates said in the last two minutes."""
    labels: dict[str, Any] = names.component_selector("gate")
    found = world.cluster.list(Pod, namespace=names.PLATFORM_NAMESPACE, labels=labels)
    logs = (
        world.cluster.log(pod.metadata.name or "", namespace="gpu-runtime", since=120) for pod in found if pod.metadata
    )
    return "".join(line for log in logs for line in log)


def test_a_login_works_into_a_unit_of_each(two: Two) -> None:
    """One entrance and one tier serve both stacks' units, each under its own host key."""
    assert two.hub.ssh(HOST, "id -un; hostname") == "alice\nhost"
    assert two.guest.ssh(VISITOR, "id -un; hostname") == "bob\nvisitor"


def test_the_guest_makes_no_platform(two: Two) -> None:
    """Its namespaces are its tenants' and its probe's; a second `up` of either stack changes nothing."""
    assert {"gpu-runtime", "lab-a", "lab-b", "gpu-runtime-probe-hub", "gpu-runtime-probe-guest"} <= two.hub.namespaces()
    for world in (two.hub, two.guest):
        status, said = attempt(world.engine(), "preview", "--expect-no-changes", *WITH_PACK)
        assert status == 0, said


def test_doctor_finds_the_platform_of_the_guest(two: Two) -> None:
    """Doctor reads the guest's file as the program does, and sees that the way in is another stack's."""
    workspace = two.guest.workspace
    findings = examine(read_file(workspace.config_file, workspace.stack, workspace.engine().environment))
    (way_in,) = [finding for finding in findings if finding.check == "way in"]

    assert Status.FAIL not in {finding.status for finding in findings}
    assert "the platform of stack hub" in way_in.found


def test_the_guests_key_signs_for_its_own_units_alone(two: Two) -> None:
    """A tunnel client with the guest's key announces no host of the other stack, whichever stack it says it is of."""
    keys = json.loads(two.hub.engine().output("stack", "output", "admitted-guest", "--show-secrets", "--json"))
    key = bytes.fromhex(PlatformKeys.model_validate(keys).key.get_secret_value())
    own = secret(two, "unit-visitor-tunnel")
    said = json.loads(base64.b64decode(own["tunnel.json"]))
    host = names.unit_host("host", "lab-a", "ssh.gpu-runtime.test")
    try:
        for owner in ("guest", "hub"):
            forged = derive.capability(key, "lab-a", "host", host)
            claim = {**said, "owner": owner, "namespace": "lab-a", "unit": "host", "host": host}
            write(two, {"tunnel.json": encoded(json.dumps(claim)), "capability": encoded(forged)})
            replace_pod(two)
            wait_until(partial(refused, two.hub, owner), f"the gate to refuse the guest as {owner}")
            assert two.hub.ssh(HOST, "id -un") == "alice"
    finally:
        write(two, own)
        replace_pod(two)
        wait_for_login(two.guest.workspace, VISITOR)


def refused(world: World, owner: str) -> bool:
    """Say whether a gate refused a login for lab-a that said to be of *owner*: by its key, or by whose lab-a is."""
    reasons = [line for line in gate_log(world).splitlines() if '"refused"' in line and "lab-a" in line]
    by_key = any("the capability is not that of" in line for line in reasons)
    return by_key if owner == "hub" else bool(reasons) and not by_key


def secret(two: Two, name: str) -> dict[str, str]:
    """Give the data of a Secret of lab-b."""
    return two.guest.cluster.get(Secret, name, namespace="lab-b").data or {}


def write(two: Two, data: dict[str, str]) -> None:
    """Write files of the visitor's tunnel client."""
    two.guest.cluster.patch(
        Secret, "unit-visitor-tunnel", {"data": data}, namespace="lab-b", patch_type=PatchType.MERGE
    )


def encoded(text: str) -> str:
    """Write *text* as Secrets have it."""
    return base64.b64encode(text.encode()).decode()


def replace_pod(two: Two) -> None:
    """Delete the visitor's pod and wait for it to go."""
    labels: dict[str, Any] = names.selector("unit", "visitor")
    (pod,) = two.guest.cluster.list(Pod, namespace="lab-b", labels=labels)
    old = pod.metadata.name if pod.metadata else ""
    two.guest.cluster.delete(Pod, old or "", namespace="lab-b")

    def is_gone() -> bool:
        found = two.guest.cluster.list(Pod, namespace="lab-b", labels=labels)
        return old not in {one.metadata.name for one in found if one.metadata}

    wait_until(is_gone, f"pod {old} to go")


def test_a_second_platform_is_refused(two: Two) -> None:
    """A stack that brings a platform to a cluster which has one registers nothing, and is told what to say instead."""
    rival = beside(two.hub, "rival", "hub")
    local.make_ready(rival.workspace, rival.rig)
    status, said = attempt(rival.engine(), "preview")

    assert status != 0
    assert "namespace gpu-runtime belongs to stack 'hub'; a cluster has one platform" in " ".join(said.split())
    assert "namespace lab-a belongs to stack 'hub'" in " ".join(said.split())
    assert "TunnelTier" not in said


def test_off_the_list_is_out(two: Two) -> None:
    """Off `admits`, from the end of that `up` no session begins, while the platform's own go on beginning."""
    with two.hub.changed(lambda config: config["gpu-runtime:platform"].pop("admits")):
        status, said = attempt(two.hub.engine(), "up", "--yes", *WITH_PACK)
        assert status == 0, said
    done = ssh(two.guest.workspace, VISITOR, "true")

    assert done.returncode != 0
    wait_until(lambda: "stack 'guest' is not admitted" in gate_log(two.hub), "the gate to say why")
    assert two.hub.ssh(HOST, "id -un") == "alice"


def test_a_guest_off_the_list_is_told_at_preview(two: Two) -> None:
    """Its own next preview says so, and who must say what to be admitted again."""
    status, said = attempt(two.guest.engine(), "preview")

    assert status != 0
    assert "does not admit stack 'guest'; add 'guest' to gpu-runtime:platform.admits" in " ".join(said.split())


def test_the_guest_goes_alone(two: Two) -> None:
    """Its end takes its namespaces with it, and nothing of the platform."""
    local.down(two.guest.workspace, two.guest.rig, keep_rig=True)

    wait_until(lambda: not {"lab-b", "gpu-runtime-probe-guest"} & two.hub.namespaces(), "the guest's namespaces to go")
    assert two.hub.ssh(HOST, "id -un") == "alice"
