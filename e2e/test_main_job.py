"""The main job, end to end on real parts: engine, provider, policy pack, Kubernetes, containers, tunnel and ssh.

The tests run in this order on one stack; each leaves it as it found it.
"""

import base64
import json
import os
import shlex
import subprocess
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from lightkube import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Namespace, PersistentVolumeClaim, Pod, Secret
from lightkube.types import PatchType

from components import names
from e2e.conftest import told_on_failure
from e2e.world import WITH_PACK, World, attempt, gone, wait_until
from tests.ssh_keys import ED25519
from tools.rig.outside import outside
from tools.stack import local
from tools.stack.client import ssh
from tools.stack.engine import REPOSITORY

pytestmark = pytest.mark.e2e

LAWLESS = REPOSITORY / "e2e" / "lawless"
OURS = {"gpu-runtime", "lab-a"}

PERMITTED = "44.12.34.56"
"""An address of the internet; here it is a host that the test makes, on a rig without a way out."""

FORBIDDEN = ("10.200.0.5", "192.168.77.7", "169.254.169.254", "168.63.129.16", "100.100.100.200")
"""Private networks, cloud metadata of three clouds."""


tell_on_failure = told_on_failure("bare_world")


@pytest.fixture(scope="module")
def prepared(bare_world: World) -> World:
    """Give a stack that is ready to be run, but was not: cluster, images, secret, nothing registered."""
    local.make_ready(bare_world.workspace, bare_world.rig)
    return bare_world


def test_a_lawless_program_is_refused_without_the_pack(prepared: World) -> None:
    """A bare `pulumi up` of a program that breaks the law is refused by the program itself; nothing is created."""
    status, said = attempt(prepared.engine(LAWLESS), "up", "--yes")

    assert status != 0
    assert "service-account-token" in said
    assert not OURS & prepared.namespaces()


def test_a_lawless_program_is_refused_by_the_pack_alone(prepared: World) -> None:
    """Where even the program's own judgement is broken, the policy pack refuses in the preview; nothing is created."""
    status, said = attempt(prepared.engine(LAWLESS, LAWLESS_BLIND="1"), "up", "--yes", *WITH_PACK)

    assert status != 0
    assert "service-account-token" in said
    assert not OURS & prepared.namespaces()


def test_a_foreign_namespace_is_never_adopted(prepared: World) -> None:
    """A namespace of that name that is somebody else's is refused before anything is registered."""
    prepared.cluster.create(Namespace(metadata=ObjectMeta(name="lab-a", labels={"team": "somebody-else"})))
    try:
        status, said = attempt(prepared.engine(), "up", "--yes")

        assert status != 0
        assert "namespace lab-a exists and is not ours" in said
        assert "gpu-runtime" not in prepared.namespaces()
    finally:
        prepared.cluster.delete(Namespace, "lab-a")
        wait_until(lambda: "lab-a" not in prepared.namespaces(), "the foreign namespace to go")


def test_up_ends_with_a_login(world: World) -> None:
    """After `up`, a plain ssh with strict host key checking lands in the unit as the unit's user."""
    assert world.ssh("trainer.lab-a", "id -un; hostname") == "alice\ntrainer"


def test_ssh_lands_beside_the_main_process(world: World) -> None:
    """A session sees the workload's own files and processes: it is in the same container, not in one beside it."""
    namespaces = "for kind in mnt pid net ipc uts; do readlink /proc/1/ns/$kind /proc/self/ns/$kind; done"
    pairs = world.ssh("trainer.lab-a", namespaces).splitlines()

    assert len(pairs) == 10
    assert pairs[0::2] == pairs[1::2]
    assert "signal.pause()" in world.ssh("trainer.lab-a", "cat /proc/*/cmdline | tr '\\0' ' '")


def test_a_session_has_the_environment_of_the_main_process(world: World) -> None:
    """Every variable of the program is in a session as well, GPUs, quotes and line breaks included."""
    find = "for p in /proc/[0-9]*; do grep -qa signal.pause $p/cmdline && echo ${p#/proc/}; done | head -1"
    main = world.ssh("trainer.lab-a", f"base64 -w0 /proc/$({find})/environ")
    session = world.ssh("trainer.lab-a", "env -0 | base64 -w0")
    program, login = (environment(text) for text in (main, session))
    program["PATH"] += ":/.gpu-runtime/tools"  # rsync and scp for images without them
    different = {
        name for name, value in program.items() if login.get(name) != value and name not in {"PWD", "SHLVL", "_"}
    }

    assert program["NVIDIA_VISIBLE_DEVICES"].startswith("GPU-simulated-")
    assert program["LINES"] == "one\ntwo"
    assert {name for name in different if not name.startswith("GPU_RUNTIME_")} == set()


def environment(text: str) -> dict[str, str]:
    """Read a NUL-separated environment in base64."""
    pairs = (pair.partition("=") for pair in base64.b64decode(text).decode().split("\0") if pair)
    return {name: value for name, _, value in pairs}


def test_files_and_ports_pass(world: World, tmp_path: Path) -> None:
    """Through the one port, scp carries a file both ways, and -W, which editors use, reaches the unit's loopback."""
    client = ["-F", str(world.workspace.ssh_config), "-o", "BatchMode=yes"]
    data, back = tmp_path / "data", tmp_path / "back"
    data.write_bytes(os.urandom(3_000_000))
    for source, target in ((str(data), "trainer.lab-a:copied"), ("trainer.lab-a:copied", str(back))):
        subprocess.run(["scp", "-q", *client, source, target], check=True, timeout=60)
    assert back.read_bytes() == data.read_bytes()

    serve = "import socket; s = socket.create_server(('127.0.0.1', 4242)); s.accept()[0].sendall(b'forwarded')"
    world.ssh("trainer.lab-a", f"setsid python3 -c {shlex.quote(serve)} >/dev/null 2>&1 </dev/null &")
    forward = ["ssh", *client, "-W", "127.0.0.1:4242", "trainer.lab-a"]

    def reached() -> bool:
        done = subprocess.run(forward, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
        return done.stdout == b"forwarded"

    wait_until(reached, "the unit's loopback to answer")


def test_a_unit_without_gpus_sees_none(world: World) -> None:
    """What an image says of GPUs counts for nothing: a unit that was granted none is told so."""
    assert world.ssh("other.lab-a", "echo $NVIDIA_VISIBLE_DEVICES $GPU_COUNT") == "void 0"


def test_prepared_data_is_there_and_read_only(world: World) -> None:
    """What the prepare job wrote is in the unit, which may read it only."""
    assert world.ssh("trainer.lab-a", "cat /data/made-at").isdigit()
    assert ssh(world.workspace, "trainer.lab-a", "touch /data/x").returncode != 0


def test_home_survives_a_restart_and_the_root_does_not(world: World) -> None:
    """The home directory is on a storage, / is the image again; the host key is the same, or ssh would refuse."""
    before = world.ssh("trainer.lab-a", "echo kept > ~/note; echo lost > /var/tmp/note; cat /data/made-at")
    world.restart("trainer")

    assert world.ssh("trainer.lab-a", "cat ~/note; ls /var/tmp; cat /data/made-at") == f"kept\n{before}"


def test_a_forbidden_address_is_not_reachable_and_a_permitted_one_is(world: World) -> None:
    """From a session, the internet answers; private networks and metadata services do not, though they are there."""
    connect = "timeout 3 bash -c 'exec 3<>/dev/tcp/{}/80; cat <&3'"
    with outside(world.rig, PERMITTED, *FORBIDDEN):
        reached = {
            address: ssh(world.workspace, "trainer.lab-a", connect.format(address)).stdout.strip()
            for address in (PERMITTED, *FORBIDDEN)
        }

    assert reached == {PERMITTED: "outside", **dict.fromkeys(FORBIDDEN, "")}


def test_a_unit_reaches_neither_api_server_nor_the_other_unit(world: World) -> None:
    """From a session, the API server and the other unit's sshd do not answer."""
    other = world.cluster.get(Pod, world.pod("other"), namespace="lab-a")
    address = other.status.podIP if other.status else None
    for host, port in ((world.rig.network.api_ip, 443), (world.rig.node_ip, 6443), (address, names.SSHD_PORT)):
        done = ssh(world.workspace, "trainer.lab-a", f"timeout 3 bash -c 'exec 3<>/dev/tcp/{host}/{port}'")
        assert done.returncode != 0, f"{host}:{port} answers"


def test_another_units_capability_is_refused(world: World) -> None:
    """A tunnel client that holds another unit's capability announces nothing: the gate refuses its login."""
    stolen = secret(world, "unit-trainer-tunnel")["capability"]
    own = secret(world, "unit-other-tunnel")["capability"]
    set_capability(world, stolen)
    try:
        replace_pod(world, "other")
        wait_until(lambda: "refused" in gate_log(world), "the gate to refuse")
        assert ssh(world.workspace, "other.lab-a", "true").returncode != 0
    finally:
        set_capability(world, own)
        world.restart("other")


def secret(world: World, name: str) -> dict[str, str]:
    """Give the data of a Secret of lab-a."""
    return world.cluster.get(Secret, name, namespace="lab-a").data or {}


def set_capability(world: World, value: str) -> None:
    """Write the other unit's capability."""
    patch = {"data": {"capability": value}}
    world.cluster.patch(Secret, "unit-other-tunnel", patch, namespace="lab-a", patch_type=PatchType.MERGE)


def replace_pod(world: World, unit: str) -> None:
    """Delete a unit's pod and wait for it to go."""
    old = world.pod(unit)
    world.cluster.delete(Pod, old, namespace="lab-a")
    wait_until(lambda: gone(world.cluster, old), f"pod {old} to go")


def gate_log(world: World, since: float = 60.0) -> str:
    """Give what the gate said in the last *since* seconds, by default a minute's."""
    labels: dict[str, Any] = {"app.kubernetes.io/component": "gate"}
    pods = [
        pod.metadata.name for pod in world.cluster.list(Pod, namespace="gpu-runtime", labels=labels) if pod.metadata
    ]
    return "".join(said_lately(world, name or "", ceil(since)) for name in pods)


def said_lately(world: World, gate: str, since: int) -> str:
    """Give what one pod of the gate said in the last *since* seconds; nothing of one that went meanwhile."""
    with suppress(ApiError):
        return "".join(world.cluster.log(gate, namespace="gpu-runtime", since=since))
    return ""


def test_a_second_up_changes_nothing(world: World) -> None:
    """Running again what is there makes no change."""
    status, said = attempt(world.engine(), "preview", "--expect-no-changes", *WITH_PACK)

    assert status == 0, said


def test_a_changed_pod_template_is_refused_by_a_bare_up(world: World) -> None:
    """A change that would restart a unit is refused in the preview, with unit and fields; nothing is restarted."""
    pod = world.pod("trainer")
    with world.changed(lambda config: trainer(config)["env"].update(WANDB_MODE="online")):
        status, said = attempt(world.engine(), "up", "--yes")

    assert status != 0
    assert "unit trainer.lab-a would be restarted" in said
    assert "spec.containers.unit.env.WANDB_MODE.value" in said
    assert "RESTART=trainer.lab-a" in said
    assert world.pod("trainer") == pod


def test_keys_and_tiers_change_without_a_restart(world: World) -> None:
    """A further key and another number of tunnel servers go through without asking, and the pod stays."""
    pod = world.pod("trainer")

    def change(config: dict[str, Any]) -> None:
        trainer(config)["ssh"]["authorizedKeys"].append(ED25519)
        config["gpu-runtime:platform"]["ssh"]["replicas"] = 1

    with world.changed(change):
        status, said = attempt(world.engine(), "preview", *WITH_PACK)

    assert status == 0, said
    assert world.pod("trainer") == pod


def trainer(config: dict[str, Any]) -> dict[str, Any]:
    """Give the unit trainer of a stack file."""
    unit: dict[str, Any] = config["gpu-runtime:tenants"]["lab-a"]["units"]["trainer"]
    return unit


def test_a_unit_made_again_keeps_its_host_key(world: World) -> None:
    """A unit that is deleted and made again answers with the same host key: strict checking stays on."""
    with world.changed(lambda config: config["gpu-runtime:tenants"]["lab-a"]["units"].pop("other")):
        status, said = attempt(world.engine(), "up", "--yes", *WITH_PACK)
        assert status == 0, said
        assert ssh(world.workspace, "other.lab-a", "true").returncode != 0
    pinned = world.workspace.known_hosts.read_text()
    world.up()

    assert world.workspace.known_hosts.read_text() == pinned
    assert world.ssh("other.lab-a", "id -un") == "bob"


def test_destroy_keeps_data_and_the_next_up_adopts_it(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """`make down KEEP=1` leaves retained claims with their namespace and says so; the next `up` finds the data."""
    note = world.ssh("trainer.lab-a", "echo adopted > ~/note; cat /data/made-at")
    local.down(world.workspace, world.rig, keep_rig=True)
    said = capsys.readouterr()
    claims = {c.metadata.name for c in world.cluster.list(PersistentVolumeClaim, namespace="lab-a") if c.metadata}

    assert OURS & world.namespaces() == {"lab-a"}
    assert claims == {"storage-dataset", "storage-home"}
    assert list(world.cluster.list(Pod, namespace="lab-a")) == []
    assert "retained: claim lab-a/storage-home" in said.err

    world.up()
    assert world.ssh("trainer.lab-a", "cat ~/note /data/made-at") == f"adopted\n{note}"


def test_no_secret_is_shown(world: World) -> None:
    """Neither outputs nor state nor any object but Secrets holds what is derived from the stack secret."""
    values = {base64.b64decode(v).decode() for n in ("trainer", "other") for v in tunnel_secrets(world, n)}
    outputs = json.dumps(world.engine().outputs())
    state = next((world.workspace.folder / "state").rglob("e2e.json")).read_text()

    assert len(values) == 3
    for value in values:
        assert value not in outputs
        assert value not in state


def tunnel_secrets(world: World, unit: str) -> list[str]:
    """Give the secret files of a unit's tunnel client, in base64."""
    data = secret(world, f"unit-{unit}-tunnel")
    return [data["token"], data["capability"]]
