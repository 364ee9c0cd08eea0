import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tools.toolchain import versions
from tools.toolchain.table import GO_MODULES, MODULES, Module

ROOT = Path(__file__).resolve().parents[1]
PULUMI = versions()["pulumi"]


def pins(file: Path) -> dict[str, str]:
    """Return `{module path: version}` of a go.mod."""
    return dict(re.findall(r"^(?:require)?\s+(\S+) (v\S+)", file.read_text(), re.MULTILINE))


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_go_modules_build_the_versions_of_the_table(module: Module) -> None:
    """What go.mod pins is what tools/versions.toml says."""
    assert pins(GO_MODULES / module.folder / "go.mod")[module.path] == module.pinned


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_no_go_module_asks_for_more_than_the_minimum(module: Module) -> None:
    """A Go that our refusal lets through can build everything."""
    asked = re.search(r"^go (\S+)", (GO_MODULES / module.folder / "go.mod").read_text(), re.MULTILINE)

    assert asked is not None
    assert asked[1] == versions()["go"]["minimum"]


def test_every_folder_of_go_modules_is_in_the_table() -> None:
    """No module lies there that nothing builds."""
    assert {folder.name for folder in GO_MODULES.iterdir()} == set(MODULES)


@pytest.mark.parametrize(
    ("package", "version"),
    [("pulumi", PULUMI["engine"]), ("pulumi-kubernetes", PULUMI["kubernetes"])],
)
def test_python_packages_match_engine_and_provider(package: str, version: str) -> None:
    """Engine, SDK, provider package and plugin are one version on every side."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = (ROOT / "requirements.lock").read_text()

    assert f"{package}=={version}" in project["dependencies"]
    assert re.search(rf"^{package}=={re.escape(version)} ", locked, re.MULTILINE)


def test_the_project_requires_exactly_our_engine() -> None:
    """A bare `pulumi up` with an engine of another release is refused by the engine itself."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    major, minor, _ = PULUMI["engine"].split(".")

    assert project["requiredPulumiVersion"] == f">={PULUMI['engine']} <{major}.{int(minor) + 1}.0"
