"""Stack files read without the engine: secrets stay sealed, mistakes are told as the program tells them."""

from pathlib import Path

import pytest
import yaml

from components.derive import Authority
from tests.stack_files import STACKS, served_by
from tools.shell import ToolError
from tools.stack import reading
from tools.stack.reading import PLACEHOLDER, read_stack

PROD = (STACKS / "Pulumi.prod.yaml").read_text()


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the file of a stack called x."""
    monkeypatch.setattr(reading, "REPOSITORY", tmp_path)
    (tmp_path / "stacks").mkdir()
    file = tmp_path / "stacks" / "Pulumi.x.yaml"
    file.write_text(PROD)
    return file


def test_a_stack_without_a_secret_yet_is_read(written: Path) -> None:
    """Before `pulumi config set --secret` the stack is read all the same; its name is its owner."""
    stack = read_stack("x")

    assert written.exists()
    assert (stack.owner, list(stack.namespaces)[-1]) == ("x", "gpu-lab-b")
    assert stack.config.secret.get_secret_value() == PLACEHOLDER


@pytest.mark.parametrize("gate", [False, True])
def test_a_server_elsewhere_without_its_secret_yet_is_read(written: Path, *, gate: bool) -> None:
    """Its token, or what its gate hands over, is no more needed here than the stack's own secret."""
    stated = yaml.safe_load(PROD)
    server = {"address": "203.0.114.7", "name": "frps.example.com", "ca": Authority("s" * 32, 0, "x").certificate}
    platform = stated["config"]["gpu-runtime:platform"]
    platform["ssh"] = served_by({**server, "gate": gate}, platform["ssh"])
    del platform["admits"]
    written.write_text(yaml.safe_dump(stated))

    assert read_stack("x").servers == [("server", "203.0.114.7", 7000)]


def test_a_stack_that_admits_itself_is_refused(written: Path) -> None:
    """What is read knows its own name, as the program does."""
    written.write_text(PROD.replace("admits: [lab]", "admits: [x]"))

    with pytest.raises(ToolError, match="'x' is this stack"):
        read_stack("x")


def test_what_is_encrypted_is_not_needed(written: Path) -> None:
    """Encrypted values, also deep ones, are placeholders: no passphrase is asked for."""
    with_secrets = PROD.replace("WANDB_MODE: offline", "WANDB_KEY: {secure: v1:abc}")
    written.write_text(f"{with_secrets}  gpu-runtime:secret: {{secure: v1:abc}}\n")
    stack = read_stack("x")

    assert stack.units["trainer.lab-a"].spec.env["WANDB_KEY"] == PLACEHOLDER


def test_a_secret_in_clear_text_is_refused(written: Path) -> None:
    """The reader is no way round the program's refusals, and does not say the secret."""
    written.write_text(f"{PROD}  gpu-runtime:secret: {'0123' * 16}\n")

    with pytest.raises(ToolError, match="clear text") as refused:
        read_stack("x")
    assert "0123" not in str(refused.value)


@pytest.mark.parametrize("text", ["config: [", "config: 7", "[]"], ids=["no YAML", "no table", "a list"])
def test_what_is_no_stack_file_is_said(written: Path, text: str) -> None:
    """One sentence names the file and what is wrong with it."""
    written.write_text(text)

    with pytest.raises(ToolError, match=r"Pulumi\.x\.yaml is no "):
        read_stack("x")


def test_a_missing_stack_is_named_beside_those_there_are(written: Path) -> None:
    """A misspelt name gets the list of names."""
    with pytest.raises(ToolError, match=r"no stacks/Pulumi\.y\.yaml; there are stacks x"):
        read_stack(written.stem.replace("Pulumi.x", "y"))


def test_the_local_stack_is_made_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The local stack's file is generated: who has none yet is told how."""
    monkeypatch.setattr("tools.stack.workspace.Workspace.config_file", tmp_path / "nothing")

    with pytest.raises(ToolError, match="run `make up` first"):
        read_stack("local")
