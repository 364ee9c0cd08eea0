"""Every check against its fixtures, and every fixture against its check."""

import pytest

from policy.check import Check, Framework, is_object_check
from policy.checks import ALL
from policy.law import judge
from tests.policy.cases import BY_FOLDER, CHECKS, FIXTURES, Case, cases, name, said


def test_every_file_is_a_check() -> None:
    """A check that is written but not listed would never run."""
    files = {file.stem for file in CHECKS.glob("*.py")} - {"__init__"}

    assert files == set(BY_FOLDER)


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.ID)
def test_every_check_passes_and_fails(check: Check) -> None:
    """A check without both kinds of fixture proves nothing."""
    folder = FIXTURES / check.ID.replace("-", "_")

    assert list(folder.glob("pass-*.yaml"))
    assert list(folder.glob("fail-*.yaml"))


def test_every_fixture_has_a_check() -> None:
    """A folder or file that no test reads would look like proof."""
    files = {file for file in FIXTURES.rglob("*") if file.is_file()}

    assert files == {case.file for verdict in ("pass", "fail") for case in cases(verdict)}


@pytest.mark.parametrize("case", cases("fail"), ids=name)
def test_fail(case: Case) -> None:
    """The check, and no other, refuses the object, and says why in the words of its fixture."""
    assert said(judge(case.documents)) == case.expected != []


@pytest.mark.parametrize("case", cases("pass"), ids=name)
def test_pass(case: Case) -> None:
    """What a check allows, no other check refuses."""
    assert judge(case.documents) == []


@pytest.mark.parametrize("case", cases("fail"), ids=name)
def test_fixture_needs_its_check(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that finds nothing any more turns each of its fixtures red."""
    function = "violations" if is_object_check(case.check) else "set_violations"
    monkeypatch.setattr(case.check, function, lambda _: iter(()))

    assert said(judge(case.documents)) != case.expected


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.ID)
def test_every_check_explains_itself(check: Check) -> None:
    """The catalogue and the documentation are made of these words."""
    assert check.DESCRIPTION.endswith(".")
    assert check.REMEDIATION.endswith(".")
    assert check.FRAMEWORKS
    assert Framework.PSS_BASELINE not in check.FRAMEWORKS or Framework.PSS_RESTRICTED in check.FRAMEWORKS
