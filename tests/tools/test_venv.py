from collections.abc import Callable
from pathlib import Path

import pytest

from tools import venv
from tools.shell import ToolError

Run = Callable[[list[str], str], None]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make a project of its own; what would be run is written down, and making the environment makes its Python."""
    (tmp_path / "requirements.lock").write_text("x==1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    monkeypatch.setattr(venv, "ROOT", tmp_path)
    monkeypatch.setattr(venv, "VENV", tmp_path / ".venv")
    ran: list[str] = []
    monkeypatch.setattr(venv, "_run", recorder(ran))
    return ran


def recorder(ran: list[str]) -> Run:
    def run(argv: list[str], label: str) -> None:
        ran.append(label)
        if argv[1:3] == ["-m", "venv"]:
            (venv.VENV / "bin").mkdir(parents=True)
            (venv.VENV / "bin" / "python").touch()

    return run


ALL = ["making the environment", "installing locked packages", "installing the project"]


def test_a_second_run_does_nothing(project: list[str]) -> None:
    """An environment that fits is left alone."""
    venv.main()
    venv.main()

    assert project == ALL


def test_an_interrupted_run_is_made_up_for(project: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between two steps leaves no environment that passes for a whole one."""
    whole = venv._run

    def interrupted(argv: list[str], label: str) -> None:
        whole(argv, label)
        if label == ALL[1]:
            raise KeyboardInterrupt

    monkeypatch.setattr(venv, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        venv.main()
    monkeypatch.setattr(venv, "_run", whole)
    project.clear()
    venv.main()

    assert project == ALL


@pytest.mark.parametrize(
    ("changed", "steps"), [("requirements.lock", ALL), ("pyproject.toml", ALL[2:]), ("policy/__init__.py", ALL[2:])]
)
def test_a_change_repeats_what_it_concerns(project: list[str], changed: str, steps: list[str]) -> None:
    """Other packages mean a new environment; a changed project is only installed again."""
    venv.main()
    project.clear()
    file = venv.ROOT / changed
    file.parent.mkdir(exist_ok=True)
    file.write_text("changed")
    venv.main()

    assert project == steps


def test_an_environment_whose_python_is_gone_is_made_again(project: list[str]) -> None:
    """An upgrade of the machine's Python does not leave a dead environment behind."""
    venv.main()
    project.clear()
    (venv.VENV / "bin" / "python").unlink()
    venv.main()

    assert project == ALL


def test_a_python_without_venv_is_told_so(project: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's python3 comes without ensurepip: the sentence names the package."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(ToolError, match="python3-venv"):
        venv.main()
    assert project == []


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("NewConnectionError('<pip...>: Failed to establish a new connection')", "package index does not answer"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "DO NOT MATCH THE HASHES"),
    ],
)
def test_a_failed_install_is_explained(line: str, sentence: str) -> None:
    """Known reasons become a sentence; anything else shows the log."""
    assert sentence in venv._failure("installing", ["Collecting x", line])
