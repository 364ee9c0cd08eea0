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
from e2e import browsing, test_main_job
from e2e.browsing import HOST as FILES
from e2e.browsing import Answer, came, signed
from e2e.conftest import describe, made, on_a_fresh_rig, told_on_failure
from e2e.netns import Try, finish, pid_of, space_of, start
from e2e.world import BOTH, WITH_PACK, World, attempt, rolled_out, wait_until
from stacks.schema import PlatformKeys
from tools.doctor.__main__ import examine
from tools.doctor.findings import Status
from tools.shell import ToolError
from tools.stack import local
from tools.stack.client import ssh, wait_for_login
from tools.stack.engine import REPOSITORY
from tools.stack.reading import read_file
from tools.stack.workspace import Workspace

pytestmark = pytest.mark.e2e

HOST, VISITOR = "host.lab-a", "visitor.lab-b"
PORT = 31445
UNITS = {"lab-a": "host", "lab-b": "visitor"}
"""The unit of each tenant: its program answers at two ports with its name."""

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
    return test_main_job.gate_log(world, since=120)


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


def ask(two: Two, name: str, path: str, headers: dict[str, str], method: str = "GET", body: bytes = b"") -> Answer:
    """Ask the one proxy, at the host called *name*."""
    return browsing.ask(two.hub, (f"{name}.{FILES}", PORT), path, headers, method, body or None)


def people(two: Two) -> dict[str, dict[str, str]]:
    """Give by tenant what its user signs in with: each stack derives the passwords of its own."""
    return {"lab-a": signed(two.hub, "lab-a"), "lab-b": signed(two.guest, "lab-b")}


def files(tenant: str) -> str:
    """Give where a tenant's files are."""
    return names.browser_path(tenant, "inbox")


def test_one_proxy_shows_each_its_own(two: Two) -> None:
    """Who signs in with a password of the guest's sees the guest's storage and port, and the hub's user the hub's."""
    for tenant, own in people(two).items():
        wait_until(partial(lists, two, tenant, own), f"the files of {tenant}")
        wait_until(partial(shown_by_both, two, tenant, own), f"the port of {tenant}")
        said = f"of {tenant}".encode()
        assert ask(two, f"inbox--{tenant}", f"{files(tenant)}/mine", own, "PUT", said).status == 201
    for tenant, own in people(two).items():
        assert ask(two, f"inbox--{tenant}", f"{files(tenant)}/mine", own).body == f"of {tenant}".encode()


def lists(two: Two, tenant: str, own: dict[str, str], status: int = 200) -> bool:
    """Say whether a tenant's files are there for *own*, or answer with another status, through both proxies."""
    return came(lambda: ask(two, f"inbox--{tenant}", f"{files(tenant)}/", own).status == status, BOTH)


def shows(two: Two, tenant: str, own: dict[str, str], port: str = "web") -> bool:
    """Say whether the program of a tenant's unit answers *own* at a port."""
    answer = ask(two, f"{port}--{UNITS[tenant]}--{tenant}", "/", own)
    return (answer.status, answer.body) == (200, UNITS[tenant].encode())


def shown_by_both(two: Two, tenant: str, own: dict[str, str]) -> bool:
    """Say whether the program answers *own* through both proxies."""
    return came(lambda: shows(two, tenant, own), BOTH)


@pytest.mark.parametrize(
    ("there", "not_there", "path"),
    [
        ("{tenant}", "nobody", "/"),
        ("inbox--{tenant}", "nothing--{tenant}", "/storage/{tenant}/inbox/mine"),
        ("web--{unit}--{tenant}", "none--{unit}--{tenant}", "/"),
    ],
    ids=["index", "storage", "port"],
)
def test_nobody_sees_what_is_the_other_stacks(two: Two, there: str, not_there: str, path: str) -> None:
    """With the other's password or none, what is there and what is not are the same to the last header."""
    known = people(two)
    for tenant, other in (("lab-a", known["lab-b"]), ("lab-b", known["lab-a"])):
        said = {"tenant": tenant, "unit": UNITS[tenant]}
        hosts = (there.format(**said), not_there.format(**said))
        refused = [ask(two, host, path.format(**said), who) for host in hosts for who in (other, {})]

        assert {(one.status, one.body) for one in refused} == {(401, b"401 sign in\n")}
        assert len({str(sorted((k, v) for k, v in one.headers.items() if k != "date")) for one in refused}) == 1


def test_the_guests_passwords_are_the_guests(two: Two) -> None:
    """The Secret with their hashes is of the guest's stack, and counts for nothing once it says another's."""
    name, own = names.access("lab-b"), people(two)["lab-b"]
    for owner, status in (("hub", 401), ("guest", 200)):
        said = {"metadata": {"labels": {names.OWNER_LABEL: owner}}}
        two.hub.cluster.patch(Secret, name, said, namespace=names.ACCESS_NAMESPACE)
        wait_until(partial(lists, two, "lab-b", own, status), f"{status} while it says {owner}")


def test_the_platform_says_which_ports_of_a_guest_it_shows(two: Two) -> None:
    """Its own unit shows any; to the guest's the walls let the proxy through at the files and the ports it names."""
    known = people(two)
    assert shows(two, "lab-a", known["lab-a"], "more")
    listens = "python3 -c 'import urllib.request as r; print(r.urlopen(\"http://localhost:7777\").read().decode())'"
    assert two.guest.ssh(VISITOR, listens) == "visitor"
    answer = ask(two, "more--visitor--lab-b", "/", known["lab-b"])
    assert (answer.status, answer.body) == (502, b"502 not reachable\n")

    unit, browser = pods(two, "unit", "visitor", "lab-b"), pods(two, "browser", "inbox", "lab-b")
    doors: list[Try] = [(str(pod.status.podIP), port, "TCP") for pod in unit for port in (8888, 7777, names.SSHD_PORT)]
    doors += [(str(pod.status.podIP), names.BROWSER_PORT, "TCP") for pod in browser]
    proxies = pods(two, names.PROXY, names.PROXY, names.PLATFORM_NAMESPACE)
    found = [finish(start(space_of(pid_of(str(one.metadata.uid))), doors)) for one in proxies]
    assert found == [[True, False, False, True]] * 2


def pods(two: Two, component: str, instance: str, namespace: str) -> list[Any]:
    """Give the pods of an instance."""
    labels: dict[str, Any] = dict(names.selector(component, instance))
    return list(two.hub.cluster.list(Pod, namespace=namespace, labels=labels))


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
    """Off `admits` neither a session begins nor a page is shown; the platform's own are.

    From the end of that `up`, and of the gates and proxies of before, which may answer for some seconds more.
    """
    known = people(two)
    with two.hub.changed(lambda config: config["gpu-runtime:platform"].pop("admits")):
        status, said = attempt(two.hub.engine(), "up", "--yes", *WITH_PACK)
        assert status == 0, said
    wait_until(lambda: rolled_out(two.hub, "gate") and rolled_out(two.hub, names.PROXY), "those of before to go")
    done = ssh(two.guest.workspace, VISITOR, "true")
    shown = {tenant: ask(two, f"inbox--{tenant}", f"{files(tenant)}/mine", own) for tenant, own in known.items()}

    assert done.returncode != 0
    assert (shown["lab-b"].status, shown["lab-b"].body) == (401, b"401 sign in\n")
    assert ask(two, "web--visitor--lab-b", "/", known["lab-b"]).status == 401
    assert shown["lab-a"].body == b"of lab-a"
    assert shows(two, "lab-a", known["lab-a"])
    wait_until(lambda: "stack 'guest' is not admitted" in gate_log(two.hub), "the gate to say why")
    assert two.hub.ssh(HOST, "id -un") == "alice"


def test_a_guest_off_the_list_is_told_at_preview(two: Two) -> None:
    """Its own next preview says so, and who must say what to be admitted again; so does all that reads its file."""
    status, said = attempt(two.guest.engine(), "preview")
    workspace = two.guest.workspace

    assert status != 0
    assert "does not admit stack 'guest'; add 'guest' to gpu-runtime:platform.admits" in " ".join(said.split())
    with pytest.raises(ToolError, match="does not admit stack 'guest'"):
        read_file(workspace.config_file, workspace.stack, workspace.engine().environment)


def test_the_guest_goes_alone(two: Two) -> None:
    """Its end takes its namespaces with it, and nothing of the platform."""
    local.down(two.guest.workspace, two.guest.rig, keep_rig=True)

    wait_until(lambda: not {"lab-b", "gpu-runtime-probe-guest"} & two.hub.namespaces(), "the guest's namespaces to go")
    assert two.hub.ssh(HOST, "id -un") == "alice"
