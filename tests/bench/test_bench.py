"""The pure parts of the bench: stacks that it makes up, and sums that it draws."""

import pytest
import yaml

from bench import configs, live
from bench.figures import Row, bend, ratios, table
from policy.law import judge
from stacks.schema import PLATFORM_IMAGES
from tests.stack_files import image


def test_a_made_up_stack_is_one_that_the_program_takes() -> None:
    """What is measured is a stack that passes every check of ours, with as many units as asked for."""
    made = configs.manifests(configs.of_size(3, "/nowhere"), "bench")

    assert judge(made) == []
    assert sum(m["kind"] == "Deployment" and m["metadata"].get("namespace") == "lab" for m in made) == 3


def test_objects_grow_with_units_alone() -> None:
    """Each unit adds the same objects, so that cost per unit is a straight line unless somebody bends it."""
    counts = [len(configs.manifests(configs.of_size(units, "/nowhere"), "bench")) for units in (1, 2, 3)]

    assert counts[2] - counts[1] == counts[1] - counts[0] > 0


def test_late_units_come_beside_the_local_stack() -> None:
    """A login is measured on the stack that `make up` makes, without its pages and with the units that come."""
    template = configs.without_pages(yaml.safe_load(live.SOURCE.read_text())["config"])
    grown = configs.grown(template, live.TENANT, live.UNIT, 2)
    tenant = grown["gpu-runtime:tenants"][live.TENANT]
    catalogue = {name: image(name) for name in (*PLATFORM_IMAGES, "python")}
    for unit in tenant["units"].values():
        unit["ssh"]["authorizedKeys"] = [configs.KEY]
    cluster = {"context": "rig-bench", "apiServerCidrs": ["10.245.0.1/32"]}
    ready = {**grown, "gpu-runtime:images": catalogue, "gpu-runtime:cluster": cluster}

    assert list(tenant["units"]) == [live.UNIT, "late-0", "late-1"]
    assert judge(configs.manifests(ready, "bench")) == []


def test_a_slow_moment_of_the_machine_leaves_the_ratio_alone() -> None:
    """Both programs of a round are slowed alike: the middle round's ratio and that of the best runs stay."""
    assert ratios([1.2, 12.0, 1.2], [1.0, 10.0, 1.0]) == pytest.approx((1.2, 1.2))


@pytest.mark.parametrize(("power", "expected"), [(1, 1.0), (2, 3.6)])
def test_a_bend_is_told_from_a_start(power: int, expected: float) -> None:
    """Seconds that a program takes before its first unit bend nothing; cost that grows with the square does."""
    costs = {size: 5.0 + 0.01 * size**power for size in (10, 30, 100, 300)}

    assert bend(costs, 100) == pytest.approx(expected, rel=0.05)


def test_a_goal_is_an_upper_bound() -> None:
    """A figure on its goal meets it, one above misses it, and one without a goal is judged by nobody."""
    rows = [Row("a", "1.1", 1.1, 1.1), Row("b", "1.2", 1.2, 1.1), Row("c", "9", 9)]

    assert [row.verdict for row in rows] == ["met", "missed", ""]
    assert [line.split()[0] for line in table(rows).splitlines()] == ["figure", "a", "b", "c"]
