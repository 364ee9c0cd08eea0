"""What a preview costs: ours against a bare program that registers the same objects, and our pack against an empty one.

No cluster is asked: the kubeconfig's server refuses every connection, which the provider takes for a cluster that is
away, and then previews each object as it was said. That is the same for every variant, and it leaves out the cluster's
own time, which would be the same for both and hide the difference.
"""

import json
import os
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import yaml

from bench import configs
from bench.figures import Cost, Row, bend, load_note, ratios
from components.cluster import OFFLINE
from tools.shell import ToolError, run_logged, say, tail
from tools.stack.engine import PACK, REPOSITORY, Engine
from tools.stack.workspace import Workspace

HERE = Path(__file__).parent
EMPTY_PACK = HERE / "empty_pack"
BARE = HERE / "bare"
STACK = "bench"

RATIO_GOAL = 1.1
BEND_GOAL = 1.2
"""A straight line, and what is noise: quadratic cost would show as 3 between 100 and 300 units."""

SMALL = 100
"""Units up to which a cost is compared with that beyond."""


@dataclass(frozen=True)
class Variant:
    """A program with a policy pack."""

    program: Path
    pack: Path | None = None


OURS, THEIRS = Variant(REPOSITORY), Variant(BARE)
OURS_EMPTY, THEIRS_EMPTY = Variant(REPOSITORY, EMPTY_PACK), Variant(BARE, EMPTY_PACK)
OURS_PACK = Variant(REPOSITORY, PACK)

VARIANTS = {
    OURS: "ours",
    THEIRS: "bare",
    OURS_EMPTY: "ours, empty pack",
    THEIRS_EMPTY: "bare, empty pack",
    OURS_PACK: "ours, our pack",
}
COMPARED = ((OURS, THEIRS), (OURS_EMPTY, THEIRS_EMPTY), (OURS_PACK, OURS_EMPTY))

Costs = dict[tuple[Variant, int], list[Cost]]


@dataclass(frozen=True)
class Case:
    """A stack of one size, ready for either program."""

    units: int
    objects: int
    engine: Engine


def rows(sizes: Sequence[int], rounds: int) -> Iterator[Row]:
    """Measure, and yield the report's rows."""
    with TemporaryDirectory(prefix="gpu-runtime-bench-") as scratch:
        cases = _cases(Path(scratch), sizes)
        costs = _measured(cases, rounds, Path(scratch) / "preview.log")
    yield from _seconds(cases, costs)
    for case, (first, second) in product(cases, COMPARED):
        yield _compared(case, first, second, costs)
    if len(sizes) > 2:  # noqa: PLR2004 - two points are always a line
        yield from (_bent(variant, costs) for variant in VARIANTS)


def _cases(folder: Path, sizes: Sequence[int]) -> list[Case]:
    """Write a stack file for each size, encrypted alike, and the same objects for the bare program."""
    workspace = Workspace(folder / "stack", STACK, HERE)
    workspace.prepare()
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(configs.nowhere()))
    return [_case(workspace, size, kubeconfig) for size in sorted(sizes)]


def _case(workspace: Workspace, size: int, kubeconfig: Path) -> Case:
    config = configs.of_size(size, str(kubeconfig))
    workspace.write(config)
    workspace.begin()
    file = workspace.folder / f"units-{size}.yaml"
    file.write_bytes(workspace.config_file.read_bytes())
    manifests = configs.manifests(config, STACK)
    given = file.with_suffix(".json")
    given.write_text(json.dumps({"provider": _provider(kubeconfig), "manifests": manifests}))
    engine = workspace.engine()
    environment = {**engine.environment, OFFLINE: "1", "BENCH_MANIFESTS": str(given)}
    return Case(size, len(manifests), replace(engine, config_file=file, environment=environment))


def _provider(kubeconfig: Path) -> dict[str, str | bool]:
    """Say the provider as ours does (stacks/ownership.py)."""
    return {
        "kubeconfig": str(kubeconfig),
        "context": configs.CONTEXT,
        "cluster_identifier": configs.CONTEXT,
        "enable_server_side_apply": True,
        "enable_config_map_mutable": True,
        "enable_secret_mutable": True,
    }


def _measured(cases: Sequence[Case], rounds: int, log: Path) -> Costs:
    """Run all in turns, each round in another order, after one round of the smallest that only warms caches."""
    costs: Costs = {}
    for variant in (OURS_PACK, THEIRS_EMPTY):
        _preview(variant, cases[0], "warming up", log)
    order = list(VARIANTS)
    runs = [
        (case, variant) for turn in range(rounds) for case in cases for variant in _rotated(order, turn + case.units)
    ]
    for number, (case, variant) in enumerate(runs, 1):
        label = f"preview {number}/{len(runs)}: {case.units} units, {VARIANTS[variant]}"
        cost = _preview(variant, case, label, log)
        say(f"{label}: {cost.wall:.1f} s, {cost.cpu:.1f} s of processor, load {cost.load:.1f}")
        costs.setdefault((variant, case.units), []).append(cost)
    return costs


def _rotated(order: list[Variant], turn: int) -> list[Variant]:
    first = turn % len(order)
    return [*order[first:], *order[:first]]


def _preview(variant: Variant, case: Case, label: str, log: Path) -> Cost:
    """Run one preview as the operator's terminal would, from the start of the CLI to its end.

    Raises ToolError with its last words when it fails.
    """
    engine = case.engine
    pack = ["--policy-pack", str(variant.pack)] if variant.pack else []
    quiet = ["--non-interactive", "--suppress-outputs", "--suppress-progress"]
    argv = ["pulumi", "preview", "--stack", engine.stack, "--config-file", str(engine.config_file), *quiet, *pack]
    environment = engine.env()
    used, began = _processor(), time.monotonic()
    status = run_logged(argv, label=label, log=log, env=environment, cwd=variant.program)
    wall, cpu = time.monotonic() - began, _processor() - used
    if status:
        raise ToolError("\n".join((f"{label} failed:", *tail(log))))
    return Cost(wall, cpu, os.getloadavg()[0])


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _seconds(cases: Sequence[Case], costs: Costs) -> Iterator[Row]:
    for case, variant in product(cases, (OURS, OURS_PACK)):
        wall = [cost.wall for cost in costs[variant, case.units]]
        shown = f"{median(wall):.1f} s (best {min(wall):.1f})"
        note = f"{case.objects} objects, {load_note([cost.load for cost in costs[variant, case.units]])}"
        yield Row(f"preview, {case.units} units, {VARIANTS[variant]}", shown, median(wall), note=note)


def _compared(case: Case, first: Variant, second: Variant, costs: Costs) -> Row:
    a, b = costs[first, case.units], costs[second, case.units]
    middle, best = ratios([cost.wall for cost in a], [cost.wall for cost in b])
    cpu_middle, cpu_best = ratios([cost.cpu for cost in a], [cost.cpu for cost in b])
    return Row(
        f"preview, {case.units} units: {VARIANTS[first]} / {VARIANTS[second]}",
        f"{middle:.2f} (best runs {best:.2f})",
        middle,
        RATIO_GOAL,
        f"processor {cpu_middle:.2f} (best {cpu_best:.2f}), {load_note([cost.load for cost in (*a, *b)])}",
    )


def _bent(variant: Variant, costs: Costs) -> Row:
    """Compare slopes of the best runs, by processor time: on the clock, other work on the machine bends them more."""
    mine = {size: found for (who, size), found in costs.items() if who == variant}
    wall = bend({size: min(cost.wall for cost in found) for size, found in mine.items()}, SMALL)
    cpu = bend({size: min(cost.cpu for cost in found) for size, found in mine.items()}, SMALL)
    what = f"a unit of {max(mine)} / a unit of up to {SMALL}: {VARIANTS[variant]}"
    loads = [cost.load for found in mine.values() for cost in found]
    return Row(what, f"{cpu:.2f} (clock {wall:.2f})", cpu, BEND_GOAL, f"processor time, {load_note(loads)}")
