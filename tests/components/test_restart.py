"""Which changes of a unit's Deployment are refused, and what the refusal says."""

from typing import Any

import pulumi
import pytest

from components.restart import MAX_FIELDS, demand_clear, differences, may_restart, refusal


def deployment(**env: str) -> dict[str, Any]:
    """Give a Deployment as the engine hands it to the hook."""
    listed = [{"name": name, "value": value} for name, value in env.items()]
    containers = [{"name": "unit", "image": "a", "env": listed}]
    return {"spec": {"replicas": 1, "template": {"spec": {"containers": containers}}}}


def test_a_change_of_the_template_is_refused_with_its_fields() -> None:
    """The refusal names the unit, each field by name and not by number, and how to allow it."""
    said = refusal("trainer.lab-a", deployment(A="1", B="2"), deployment(A="1", B="3"), "")

    assert said is not None
    assert "unit trainer.lab-a would be restarted" in said
    assert "spec.containers.unit.env.B.value" in said
    assert "RESTART=trainer.lab-a" in said
    assert "env.A" not in said


def test_stopping_and_starting_is_not_refused() -> None:
    """A change beside the template, such as replicas, replaces no pod that the user did not mean."""
    new = deployment(A="1")
    new["spec"]["replicas"] = 0

    assert refusal("trainer.lab-a", deployment(A="1"), new, "") is None


@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 1), (1, 0)])
def test_a_unit_that_does_not_run_has_no_work_to_lose(before: int, after: int) -> None:
    """A stopped unit is changed without a word, and so is one that the same change stops or starts."""
    old, new = deployment(A="1"), deployment(A="2")
    old["spec"]["replicas"], new["spec"]["replicas"] = before, after

    assert refusal("trainer.lab-a", old, new, "") is None


@pytest.mark.parametrize(
    ("allowed", "may"),
    [("", False), ("all", True), ("trainer.lab-a", True), ("trainer", True), ("x, trainer", True), ("train", False)],
)
def test_restart_names_units(allowed: str, may: bool) -> None:  # noqa: FBT001
    """RESTART lists units by alias or bare name, or says all; part of a name is no name."""
    assert may_restart("trainer.lab-a", allowed) is may


@pytest.mark.parametrize("allowed", ["trainer", "x, trainer"])
def test_a_bare_name_of_several_units_is_refused(allowed: str) -> None:
    """Nobody ends the work in a tenant's unit by naming another tenant's; the refusal says which there are."""
    with pytest.raises(pulumi.RunError, match=r"RESTART=trainer may mean trainer\.lab-a, trainer\.lab-b: say"):
        demand_clear(["trainer.lab-b", "other.lab-a", "trainer.lab-a"], allowed)


@pytest.mark.parametrize("allowed", ["", "all", "trainer", "trainer.lab-a, other"])
def test_a_name_of_one_unit_is_clear(allowed: str) -> None:
    """A bare name that one unit alone has is that unit."""
    demand_clear(["trainer.lab-a", "other.lab-a"], allowed)


def test_the_environment_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused is what `make up RESTART=` and a bare `pulumi up` go by."""
    monkeypatch.setenv("RESTART", "trainer")
    with pytest.raises(pulumi.RunError, match="may mean"):
        demand_clear(["trainer.lab-a", "trainer.lab-b"])


def test_another_order_is_a_difference() -> None:
    """Init containers run in order, so that another order is another template."""
    old = {"c": [{"name": "a"}, {"name": "b"}]}

    assert list(differences(old, {"c": [{"name": "b"}, {"name": "a"}]})) == ["c (order)"]


def test_a_long_list_is_cut() -> None:
    """A refusal names the first fields and how many more there are."""
    old, new = (deployment(**{f"V{i:02}": value for i in range(MAX_FIELDS + 3)}) for value in ("x", "y"))

    assert "and 3 more" in (refusal("u.t", old, new, "") or "")
