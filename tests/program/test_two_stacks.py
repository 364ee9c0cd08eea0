"""A platform's stack and one of tenants alone, through the real engine and a backend of files."""

import copy
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.configs import CONTEXT, nowhere
from components import cluster, derive
from stacks.handover import READ
from tests.stack_files import SECRET, STACKS
from tools.shell import ToolError
from tools.stack.engine import Engine
from tools.stack.reading import read_file
from tools.stack.workspace import Workspace

SAID = Path(__file__).with_name("said")
ADMITTED = ("lab", "other")
OTHERS_KEY = derive.stack_key(derive.gate_key(SECRET, 1), "other").hex()


@dataclass(frozen=True)
class Place:
    """A folder with one backend, in which stacks are made."""

    folder: Path

    def workspace(self, stack: str) -> Workspace:
        """Give the workspace of *stack*; all of them share backend and passphrase."""
        return Workspace(self.folder, stack, STACKS / f"Pulumi.{stack}.yaml")

    def make(self, stack: str, example: str, changes: dict[str, Any]) -> Workspace:
        """Make *stack* from the example of another, with *changes* below ``gpu-runtime:``."""
        workspace = self.workspace(stack)
        workspace.prepare()
        config = copy.deepcopy(yaml.safe_load((STACKS / f"Pulumi.{example}.yaml").read_text())["config"])
        config["gpu-runtime:cluster"] |= {"context": CONTEXT, "kubeconfig": str(self.kubeconfig)}
        workspace.write({**config, **{f"gpu-runtime:{key}": value for key, value in changes.items()}})
        workspace.begin()
        return workspace

    @property
    def kubeconfig(self) -> Path:
        """Give the kubeconfig of a cluster that is away."""
        return self.folder / "kubeconfig"


def run(engine: Engine, *arguments: str) -> tuple[int, str]:
    """Run the CLI; give its exit status and all that it said."""
    argv = engine._argv(arguments)
    done = subprocess.run(argv, cwd=engine.folder, env=engine.env(), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def told(workspace: Workspace) -> Engine:
    """Give the engine for the program that only reads its file and exports."""
    return replace(workspace.engine(), folder=SAID)


def program(workspace: Workspace, **environment: str) -> Engine:
    """Give the engine for the program itself, which asks no cluster."""
    engine = workspace.engine()
    return replace(engine, environment={**engine.environment, cluster.OFFLINE: "1", **environment})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Give a backend with a platform's stack `prod` that admits two, one of which is there: `lab`."""
    made = Place(tmp_path_factory.mktemp("stacks"))
    made.kubeconfig.write_text(yaml.safe_dump(nowhere()))
    prod = made.make("prod", "prod", {})
    platform = yaml.safe_load(prod.config_file.read_text())["config"]["gpu-runtime:platform"]
    prod = made.make("prod", "prod", {"platform": {**platform, "admits": list(ADMITTED)}})
    prod.engine().output("config", "set", "--secret", "gpu-runtime:secret", stdin=SECRET)
    status, said = run(told(prod), "up", "--yes", "--skip-preview")
    assert status == 0, said
    made.make("lab", "lab", {})
    return made


def test_a_preview_knows_what_the_platform_says(place: Place) -> None:
    """The very first preview has whole walls, hosts and keys, although nothing of the stack exists yet."""
    status, said = run(program(place.workspace("lab")), "preview")

    assert status == 0, said
    assert "GPUUnit  notebook.vision" in " ".join(said.split()).replace("GPUUnit notebook", "GPUUnit  notebook")
    assert "TunnelTier" not in said


def test_a_state_holds_no_other_stacks_key(place: Place) -> None:
    """What the platform hands to others, and the gate's key, is nowhere in the state of a stack that it admits."""
    lab = told(place.workspace("lab"))
    status, said = run(lab, "up", "--yes", "--skip-preview")
    assert status == 0, said
    state = lab.output("stack", "export", "--show-secrets")
    prod = told(place.workspace("prod")).output("stack", "export", "--show-secrets")

    assert OTHERS_KEY in prod
    assert OTHERS_KEY not in state
    assert derive.frp_token(SECRET, 1) not in state
    assert derive.gate_key(SECRET, 1) not in state


def test_the_tools_read_it_without_the_passphrase(place: Place) -> None:
    """Whoever sees the backend, and no secret in it, learns from it how units are reached and walled."""
    lab = place.workspace("lab")
    backend = {
        "PULUMI_BACKEND_URL": lab.engine().environment["PULUMI_BACKEND_URL"],
        "PULUMI_CONFIG_PASSPHRASE": "wrong",
    }
    stack = read_file(lab.config_file, "lab", backend)

    assert stack.units["notebook.vision"].host == "notebook.lab-vision.ssh.example.org"
    assert stack.servers[0] == ("frps-0", "frps-0.gpu-runtime.svc", 7000)
    with pytest.raises(ToolError, match="none"):
        read_file(lab.config_file, "none", {**backend, "PULUMI_BACKEND_URL": "file:///nonexistent"})


@pytest.mark.parametrize(
    ("stack", "changes", "advice"),
    [
        ("third", {}, "does not admit stack 'third'; add 'third' to gpu-runtime:platform.admits of that stack"),
        ("lab", {"platformStack": "organization/gpu-runtime/none"}, "cannot be read: unknown stack"),
        ("lab", {"platformStack": "organization/gpu-runtime/lab"}, "has no output 'platform'"),
    ],
)
def test_who_is_not_admitted_is_refused(place: Place, stack: str, changes: dict[str, Any], advice: str) -> None:
    """The refusal says what the platform's stack must say; nothing is planned."""
    workspace = place.make(stack, "lab", changes)
    try:
        status, said = run(program(workspace), "preview")
    finally:
        place.make(stack, "lab", {})

    assert status != 0
    assert advice in " ".join(said.split())
    assert "GPUUnit" not in said


def test_another_passphrase_needs_keys_of_its_own(place: Place) -> None:
    """Who may not open the platform's secrets is told how to get the keys by hand; with them the preview is whole."""
    passphrase = place.folder / "passphrase"
    kept = passphrase.read_text()
    prod = place.workspace("prod").engine()
    keys = prod.output("stack", "output", "admitted-other", "--show-secrets")
    apart = Place(place.folder / "apart")
    apart.folder.mkdir()
    apart.kubeconfig.write_text(place.kubeconfig.read_text())
    (apart.folder / "state").symlink_to(place.folder / "state")
    lab = apart.make("other", "lab", {})
    assert (apart.folder / "passphrase").read_text() != kept

    refused = run(program(lab), "preview")
    lab.engine().output("config", "set", "--secret", "gpu-runtime:platformKeys", stdin=keys)
    accepted = run(program(lab), "preview")

    assert refused[0] != 0
    assert "platformKeys" in refused[1]
    assert accepted[0] == 0, accepted[1]
    assert READ not in accepted[1]
