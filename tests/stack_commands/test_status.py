"""`make status`: a table for people, an object per unit for programs."""

import json
from datetime import datetime

import pytest
from status.objects import Seen
from status.states import state_of

from tests.status.objects import RUNNING, container, deployment, ended, link, pod, starting, waiting
from tools.status.rows import LONGEST_REASON, Row, reason, table

NOW = datetime.fromisoformat("2026-01-01T01:02:03Z")
LOG = (link("frps-0", "announced"), link("frps-1", "down", "token mismatch"))
UP = (container("tunnel", RUNNING), container("unit", RUNNING))


def row(unit: str, seen: Seen) -> Row:
    """Give the row of a unit of lab-a."""
    return Row("lab-a", unit, "gpu-lab-a", state_of(seen))


BROKEN = starting(container("unit", waiting("CrashLoopBackOff"), ended(3, message="no data\nI give up"), restarts=4))
ROWS = [
    row("trainer", Seen(deployment(gpus=2), (pod(*UP),), log=LOG)),
    row("broken", BROKEN),
    row("idle", Seen(deployment(replicas=0))),
]


def test_the_table_has_a_line_for_each_unit() -> None:
    """Phase, SSH, GPUs, age, restarts and a reason in one line; who is well needs no reason."""
    lines = [line.split("  ") for line in table(ROWS, NOW).splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]

    assert cells[0] == ["TENANT", "UNIT", "PHASE", "SSH", "GPUS", "AGE", "RESTARTS", "REASON"]
    assert cells[1][:7] == ["lab-a", "trainer", "Ready", "Reachable", "2", "1h02m", "0"]
    assert cells[1][7] == "ssh: by 1 of 2 servers: frps-1 down (token mismatch)"
    assert cells[2][:7] == ["lab-a", "broken", "Failed", "Pending", "0", "1h02m", "4"]
    assert "its program ended with 3 after 3 s: no data I give up (started again 4 times)" in cells[2][7]
    assert cells[3][:7] == ["lab-a", "idle", "Stopped", "Pending", "0", "-", "0"]


def test_programs_get_all_of_it() -> None:
    """An object has the whole message, lines and all, and is JSON."""
    plain = json.loads(json.dumps(ROWS[1].plain))

    assert plain["phase"] == "Failed"
    assert plain["reason"] == "CrashLoopBackOff"
    assert "no data\nI give up" in plain["message"]
    assert (plain["ssh"], plain["sshReason"], plain["exitCode"]) == ("Pending", "CrashLoopBackOff", None)
    assert (plain["tenant"], plain["unit"], plain["namespace"]) == ("lab-a", "broken", "gpu-lab-a")


@pytest.mark.parametrize("length", [1, 5000])
def test_a_reason_fits_a_line(length: int) -> None:
    """However much a program said, the table stays one."""
    said = starting(container("unit", ended(3, message="x\n" * length)))

    assert "\n" not in reason(state_of(said))
    assert len(reason(state_of(said))) <= LONGEST_REASON
