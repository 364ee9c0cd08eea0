"""`make stop|start|restart|logs UNIT=`: which unit is meant, and what is written down."""

import copy
import os
from pathlib import Path

import pytest
import yaml

from tests.stack_files import FILES
from tools.shell import ToolError
from tools.units import named
from tools.units.declare import aliases, declare, with_running

BLOCK = """\
# a stack
config:
  gpu-runtime:tenants:   # who
    lab-a:
      units:
        trainer:         # the big one
          # its size
          flavor: h100   # one GPU
          image: "python"

        other: {flavor: small, image: python}   # small
    lab-b:
      units:
        trainer: {image: python, running: true, flavor: small}
        ready:
          flavor: small
          running: yes   # as before
  gpu-runtime:secret:
    secure: v1:abc
"""


def test_a_word_is_put_in_and_all_else_stays() -> None:
    """In a block the word is a line of its own; comments, blanks and the other units stay as they were."""
    stopped = with_running(BLOCK, "trainer.lab-a", running=False)

    assert stopped == BLOCK.replace("flavor: h100   # one", "running: false\n          flavor: h100   # one")
    assert with_running(stopped, "trainer.lab-a", running=True) == stopped.replace("running: false", "running: true")


@pytest.mark.parametrize(
    ("alias", "before", "after"),
    [
        ("other.lab-a", "{flavor: small, image", "{running: false, flavor: small, image"),
        ("trainer.lab-b", "running: true", "running: false"),
        ("ready.lab-b", "running: yes   # as before", "running: false   # as before"),
    ],
)
def test_a_word_that_is_there_is_changed_in_its_place(alias: str, before: str, after: str) -> None:
    """In one line, the word comes first or is changed where it stands."""
    assert with_running(BLOCK, alias, running=False) == BLOCK.replace(before, after)


def test_what_runs_without_a_word_needs_none() -> None:
    """To start a unit that says nothing changes nothing."""
    assert with_running(BLOCK, "trainer.lab-a", running=True) == BLOCK


def test_line_ends_stay() -> None:
    """A file with carriage returns gets no line without one."""
    text = BLOCK.replace("\n", "\r\n")
    stopped = with_running(text, "trainer.lab-a", running=False)

    assert "\n" not in stopped.replace("\r\n", "")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_unit_of_our_stack_files_can_be_stopped(file: Path, tmp_path: Path) -> None:
    """Only the one word differs afterwards, for programs too."""
    copied = tmp_path / file.name
    before = yaml.safe_load(file.read_text())
    for alias in aliases(before["config"]):
        copied.write_text(file.read_text())
        declare(copied, alias, running=False)
        unit, _, tenant = alias.partition(".")
        expected = copy.deepcopy(before)
        expected["config"]["gpu-runtime:tenants"][tenant]["units"][unit]["running"] = False
        assert yaml.safe_load(copied.read_text()) == expected


def test_a_file_is_replaced_with_its_rights(tmp_path: Path) -> None:
    """Rights stay, a link stays a link, nothing is left beside it, and a second time nothing is written."""
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    real.write_text(BLOCK)
    real.chmod(0o640)
    link.symlink_to(real)

    assert declare(link, "trainer.lab-a", running=False)
    assert not declare(link, "trainer.lab-a", running=False)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.yaml", "real.yaml"]


def test_an_interrupted_write_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When writing fails half-way, the file is as it was and nothing lies beside it."""
    path = tmp_path / "stack.yaml"
    path.write_text(BLOCK)

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        declare(path, "trainer.lab-a", running=False)
    assert path.read_text() == BLOCK
    assert [one.name for one in tmp_path.iterdir()] == ["stack.yaml"]


SHARED = """\
config:
  gpu-runtime:tenants:
    lab-a:
      units:
        one: &like {flavor: small, image: python}
        two: *like
"""


def test_what_others_share_is_not_touched(tmp_path: Path) -> None:
    """A unit whose lines are another's as well is refused: to stop one would stop both."""
    path = tmp_path / "stack.yaml"
    path.write_text(SHARED)
    with pytest.raises(ToolError, match="shares its lines"):
        declare(path, "two.lab-a", running=False)
    assert path.read_text() == SHARED


@pytest.mark.parametrize(
    ("alias", "said"),
    [
        ("trainr.lab-a", r"'trainr.lab-a' is not in stack.yaml; did you mean .*trainer.lab-a"),
        ("trainer", r"did you mean trainer.lab-a or trainer.lab-b"),
        ("zzz", r"'zzz' is not in stack.yaml; there are other.lab-a, ready.lab-b, trainer.lab-a, trainer.lab-b"),
        ("", r"no unit is named: say UNIT=<unit>.<tenant>; there are other.lab-a"),
    ],
)
def test_an_unknown_unit_is_refused_with_names_that_are_near(tmp_path: Path, alias: str, said: str) -> None:
    """Who misspells a unit is told what there is, and nothing is written."""
    path = tmp_path / "stack.yaml"
    path.write_text(BLOCK)
    with pytest.raises(ToolError, match=said):
        declare(path, alias, running=False)
    assert path.read_text() == BLOCK


def test_a_stack_without_units_says_so() -> None:
    """Where there is nothing to choose from, that is said."""
    with pytest.raises(ToolError, match="there are no units"):
        named.demand("a.b", [], "stack x")
