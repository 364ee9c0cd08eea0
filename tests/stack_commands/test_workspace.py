"""The folder of a local stack: what is kept, what is written anew, what is locked."""

import json
import os
import socket
import stat
from contextlib import nullcontext
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml

from stacks.load import parse
from tests.stack_files import FILES, IMAGES, SECRET, image
from tools.images import Image
from tools.rig import Network
from tools.rig.rig import Status
from tools.shell import ToolError
from tools.stack import local
from tools.stack.overlay import overlay
from tools.stack.workspace import Workspace

LOCAL = next(file for file in FILES if file.stem == "Pulumi.local")


class FakeRig:
    """What `overlay` asks of a rig."""

    name = "local"
    kubeconfig = Path("/rig/kubeconfig")
    network = Network(IPv4Network("10.129.0.0/16"))
    node_ip = network.node_ip


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Give an empty workspace."""
    made = Workspace(tmp_path / "local", "local", LOCAL)
    made.prepare()
    return made


def filled(workspace: Workspace) -> dict[str, Any]:
    """Give the local stack file as `make up` fills it in."""
    return overlaid(local.template(LOCAL), workspace.public_key())


def overlaid(said: Any, key: str = "ssh-ed25519 AAAA demo") -> dict[str, Any]:
    """Fill in a stack file."""
    rig: Any = FakeRig()
    return overlay(said, rig, {name: image(name) for name in IMAGES}, key)


def test_what_up_writes_is_a_stack(workspace: Workspace) -> None:
    """The filled-in local stack file is accepted; only the secret is for the engine to add."""
    raw = {key.removeprefix("gpu-runtime:"): value for key, value in filled(workspace).items()}
    stack = parse({**raw, "secret": SECRET}, {"gpu-runtime:secret"})

    assert stack.cluster.context == "rig-local"
    assert stack.ssh.connect.host == str(FakeRig.node_ip)
    assert stack.tenants["lab-a"].units["trainer"].ssh is not None


def test_the_demo_key_is_added_to_the_users_own() -> None:
    """A unit with keys of its own keeps them, and the printed command still works."""
    said = {"gpu-runtime:tenants": {"lab-a": {"units": {"u": {"ssh": {"authorizedKeys": ["mine"]}}}}}}
    unit = overlaid(said, "demo")["gpu-runtime:tenants"]["lab-a"]["units"]["u"]

    assert unit["ssh"]["authorizedKeys"] == ["mine", "demo"]
    assert said["gpu-runtime:tenants"]["lab-a"]["units"]["u"]["ssh"]["authorizedKeys"] == ["mine"]


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"gpu-runtime:platform": 7},
        {"gpu-runtime:tenants": []},
        {"gpu-runtime:tenants": {"a": None}},
        {"gpu-runtime:tenants": {"a": {"units": []}}},
        {"gpu-runtime:tenants": {"a": {"units": {"u": {"ssh": "x"}}}}},
    ],
)
def test_a_misshapen_stack_file_is_left_for_the_program_to_refuse(said: dict[str, Any]) -> None:
    """Filling in never fails: what is wrong is told by the program, with path and advice."""
    assert overlaid(said)["gpu-runtime:cluster"]["context"] == "rig-local"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "is not there"),
        ("", "is no stack file"),
        ("[]", "is no stack file"),
        ("config: [", "is no YAML"),
        ("config: {a: 1, b: {}, a: 2}", r"is no YAML: 'a' is there twice in .* line 1, column 23"),
    ],
)
def test_what_is_no_stack_file_is_refused_by_name(tmp_path: Path, text: str | None, why: str) -> None:
    """A missing, empty or broken file is refused in one sentence that names it."""
    file = tmp_path / "Pulumi.local.yaml"
    if text is not None:
        file.write_text(text)

    with pytest.raises(ToolError, match=rf"Pulumi.local.yaml {why}"):
        local.template(file)


def test_the_catalogue_is_what_was_loaded() -> None:
    """The local stack names the images that its rig really has."""
    loaded = [image("gate"), image("tunnel")]

    assert local.catalogue(loaded) == {"gate": image("gate"), "tunnel": image("tunnel")}


def test_secrets_survive_a_rewrite(workspace: Workspace) -> None:
    """Writing the stack file anew keeps what the engine encrypted, so that no identity changes."""
    workspace.write({"gpu-runtime:flavors": {}})
    text = yaml.safe_load(workspace.config_file.read_text())
    text["encryptionsalt"] = "v1:salt"
    text["config"]["gpu-runtime:secret"] = {"secure": "v1:abc"}
    workspace.config_file.write_text(yaml.safe_dump(text))
    workspace.write({"gpu-runtime:flavors": {"new": {}}})
    again = yaml.safe_load(workspace.config_file.read_text())

    assert again["encryptionsalt"] == "v1:salt"
    assert again["config"] == {"gpu-runtime:flavors": {"new": {}}, "gpu-runtime:secret": {"secure": "v1:abc"}}


def test_only_the_owner_reads(workspace: Workspace) -> None:
    """Passphrase, key and stack file are for their owner alone."""
    workspace.write({})
    for path in (workspace.folder / "passphrase", workspace.identity, workspace.config_file):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(workspace.folder.stat().st_mode) == 0o700


def test_passphrase_and_key_are_made_once(workspace: Workspace) -> None:
    """A second `up` uses the passphrase and the demo key of the first."""
    before = (workspace.folder / "passphrase").read_text(), workspace.public_key()
    workspace.prepare()

    assert ((workspace.folder / "passphrase").read_text(), workspace.public_key()) == before


@pytest.mark.parametrize(
    ("pid", "host", "stays"),
    [(os.getpid(), socket.gethostname(), True), (2**22 - 1, socket.gethostname(), False), (2**22 - 1, "other", True)],
    ids=["a living run's", "a killed run's", "another machine's"],
)
def test_only_the_lock_of_a_killed_run_is_removed(
    workspace: Workspace,
    pid: int,
    host: str,
    stays: bool,  # noqa: FBT001
) -> None:
    """A lock is removed when, and only when, its run is known to be dead."""
    lock = workspace.folder / "state/.pulumi/locks/organization/gpu-runtime/local/1.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": pid, "hostname": host}))
    workspace.unlock()

    assert lock.exists() is stays


@pytest.mark.parametrize("refused", [False, True], ids=["shown", "refused"])
def test_a_preview_leaves_what_was_applied(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, *, refused: bool
) -> None:
    """The engine previews the edited file; afterwards the generated one is what `up` wrote, whatever came of it."""
    edited = workspace.folder / "edited.yaml"
    edited.write_text(LOCAL.read_text().replace("blockedCidrs: []", "blockedCidrs: [52.0.0.0/24]"))
    asked = Workspace(workspace.folder, "local", edited)
    workspace.write(filled(workspace))
    applied, seen = workspace.config_file.read_text(), []

    def run(*_: object) -> int:
        seen.append(workspace.config_file.read_text())
        if refused:
            raise KeyboardInterrupt
        return 0

    rig: Any = FakeRig()
    rig.status = lambda: Status("running")
    monkeypatch.setattr("tools.stack.engine.Engine.run", run)
    with pytest.raises(KeyboardInterrupt) if refused else nullcontext():
        local.preview(asked, rig)

    assert "52.0.0.0/24" in seen[0]
    assert workspace.config_file.read_text() == applied


def test_a_preview_knows_images_that_up_will_load(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit that is new and says an image of ours is previewed with it, though the rig does not have it yet."""
    edited = workspace.folder / "edited.yaml"
    edited.write_text(LOCAL.read_text().replace("image: python", "image: workspace"))
    workspace.write(filled(workspace))
    seen: list[str] = []

    def run(*_: object) -> int:
        seen.append(workspace.config_file.read_text())
        return 0

    rig: Any = FakeRig()
    rig.status = lambda: Status("running")
    monkeypatch.setattr("tools.stack.engine.Engine.run", run)
    made = Image("workspace", Path("workspace.tar"), image("workspace"))
    monkeypatch.setattr("tools.images.build", lambda *names: dict.fromkeys(names, made))
    local.preview(Workspace(workspace.folder, "local", edited), rig)

    assert yaml.safe_load(seen[0])["config"]["gpu-runtime:images"]["workspace"] == made.ref


class FakeEngine:
    """What `down` asks of the engine."""

    def __init__(self, said: dict[str, Any] | None) -> None:
        self.said = said

    def outputs(self) -> dict[str, Any]:
        """Give what the last `up` said; fail where there was none."""
        if self.said is None:
            raise ToolError("no stack named 'local'")
        return self.said


def test_what_is_protected_is_not_destroyed_in_part() -> None:
    """A destroy would leave what is protected and take all around it; so it does not begin."""
    engine: Any = FakeEngine({"protected": ["home.lab-a", "dataset.lab-a"]})
    with pytest.raises(ToolError, match=r"protected: storage home.lab-a, dataset.lab-a; say `protect: false`"):
        local.demand_unprotected(engine)


@pytest.mark.parametrize("said", [None, {}, {"protected": []}], ids=["never up", "older", "nothing protected"])
def test_a_stack_without_protection_is_destroyed(said: dict[str, Any] | None) -> None:
    """Neither an older release's outputs nor a stack without any keep a stack from going."""
    engine: Any = FakeEngine(said)

    local.demand_unprotected(engine)


@pytest.fixture
def destroyed(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> list[Workspace]:
    """Give what was destroyed of a stack that is there."""
    monkeypatch.setattr(local, "demand_unprotected", lambda _: None)
    monkeypatch.setattr(local, "PATIENCE_SECONDS", 3)
    gone: list[Workspace] = []
    monkeypatch.setattr(local, "_destroy", gone.append)
    workspace.config_file.touch()
    return gone


def test_a_rig_that_is_sick_for_a_moment_is_waited_for(workspace: Workspace, destroyed: list[Workspace]) -> None:
    """One slow answer does not leave a stack behind that was to be destroyed."""
    states = [Status("sick", "missing: API server"), Status("running")]
    rig: Any = FakeRig()
    rig.status = lambda: states.pop(0)
    local.down(workspace, rig, keep_rig=True)

    assert destroyed == [workspace]


def test_what_cannot_be_destroyed_is_said(workspace: Workspace, destroyed: list[Workspace]) -> None:
    """Where the rig is to stay and does not answer, `down` fails with why; where the rig goes, all on it goes, too."""
    rig: Any = FakeRig()
    rig.status = lambda: Status("sick", "missing: API server")
    removed: list[str] = []
    rig.down = lambda: removed.append("rig")
    with pytest.raises(ToolError, match="the rig is sick, missing: API server: the stack on it is not destroyed"):
        local.down(workspace, rig, keep_rig=True)
    local.down(workspace, rig, keep_rig=False)

    assert destroyed == []
    assert removed == ["rig"]
    assert not workspace.folder.exists()
