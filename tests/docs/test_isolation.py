"""The page on isolation: its table and its matrix are generated, and are what the code says now."""

import copy
import os
import re
from pathlib import Path
from typing import Any

from stacks.load import parse
from stacks.resolve import Stack
from tests.conftest import UPDATE
from tests.docs.test_readme import example
from tools.stack.workspace import Workspace
from tools.walls.flow_table import flow_table
from tools.walls.stacks import nominal
from tools.walls.table import matrix_markdown

PAGE = Path(__file__).parents[2] / "docs" / "isolation.md"
GIVEN = "(the reason that the stack file gives)"


def every_flow() -> Stack:
    """Give the README's stack with all that opens a flow: what it says of holes is each site's own."""
    said: dict[str, Any] = copy.deepcopy(example())
    for entrance in ("ssh", "browser"):
        said["platform"][entrance]["service"].pop("sourceRanges")
    said["cluster"]["adminTier"] = True
    lab = said["tenants"]["lab-a"]
    lab.pop("quota")
    bare = {key: lab["units"]["trainer"][key] for key in ("flavor", "image", "ssh")}
    lab["units"]["bare"] = bare
    said["tenants"]["lab-b"] = {"internal": True, "units": {"one": bare, "two": bare}}
    for egress in (said["egress"], lab["egress"]):
        egress.pop("internetPorts")
        egress["allow"] = [{**hole, "ports": [443], "reason": GIVEN} for hole in egress["allow"]]
    return Stack(parse(said, {"gpu-runtime:secret", "gpu-runtime:previousSecret"}), "docs")


def part(name: str, fresh: str) -> str:
    """Give what stands between the marks of *name* on the page, after writing it anew where that is asked for."""
    pattern = re.compile(rf"(<!-- {name}: [^>]*-->\n)(.*?)(<!-- /{name} -->)", re.DOTALL)
    if os.environ.get(UPDATE) == "1":
        text = PAGE.read_text()
        PAGE.write_text(pattern.sub(lambda found: f"{found[1]}\n{fresh}\n{found[3]}", text))
    found = pattern.search(PAGE.read_text())
    return found[2].strip("\n") + "\n" if found else ""


def test_the_table_of_flows_is_the_programs_own() -> None:
    """The documentation permits what the program permits: `make golden` writes the table anew."""
    fresh = flow_table(every_flow().flows)

    assert part("flows", fresh) == fresh


def test_the_matrix_is_that_of_the_local_stack() -> None:
    """Who reaches whom is told as the policies of the local stack come to, on any machine the same."""
    fresh = matrix_markdown(nominal(Workspace()))

    assert part("matrix", fresh) == fresh
