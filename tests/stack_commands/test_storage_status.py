"""`make status` of storages: a table for people, an object per storage for programs."""

import json

from status.storage_objects import StorageSeen
from status.storage_states import storage_state

from tests.status.objects import RUNNING, container
from tests.status.test_storage_states import BROWSER, DONE_JOB, FAILED_POD, THRICE, browser, claim, job, pod
from tools.status.storage_rows import StorageRow, storage_table

SEEN = {
    "home": StorageSeen(claim(job=None, size="9Gi")),
    "data": StorageSeen(claim(), (DONE_JOB,), browser=browser(**BROWSER)),
    "filling": StorageSeen(claim(), (job(),), (pod(container("prepare", RUNNING)),)),
    "broken": StorageSeen(claim(revision="1"), (job(THRICE),), (FAILED_POD,)),
    "none": StorageSeen(None),
}
GROWS = "grows from 5Gi to 9Gi: ResizeRequested nobody has begun to enlarge it"
ROWS = {name: StorageRow("lab-a", name, "gpu-lab-a", storage_state(seen)) for name, seen in SEEN.items()}


def test_the_table_has_a_line_for_each_storage() -> None:
    """The whole, its parts, and a reason in one line; who is well needs none."""
    cells = [[cell.strip() for cell in line.split("  ") if cell] for line in storage_table(ROWS.values()).splitlines()]

    assert cells[0] == ["TENANT", "STORAGE", "PHASE", "CLAIM", "SIZE", "PREPARE", "BROWSER", "REASON"]
    assert cells[1] == ["lab-a", "home", "Ready", "Bound", "5Gi", "NotRequested", "Disabled", GROWS]
    assert cells[2] == ["lab-a", "data", "Ready", "Bound", "5Gi", "Succeeded", "Ready"]
    assert cells[3][2:] == ["Pending", "Bound", "5Gi", "Running", "Disabled", "StoragePrepareRunning: Preparing"]
    assert cells[4][2:7] == ["Failed", "Bound", "5Gi", "Failed", "Disabled"]
    assert cells[4][7].startswith("StoragePrepareFailed: BackoffLimitExceeded: Job has reached the specified backoff")
    assert cells[5][2:7] == ["Absent", "Absent", "-", "NotRequested", "Disabled"]
    assert storage_table([]) == ""


def test_a_cell_plays_no_tricks_with_a_terminal() -> None:
    """What a kubelet or a program said is shown with what it would have done."""
    grows = {"type": "Resizing", "status": "True", "message": "a\x1b[2Jb"}
    odd = StorageSeen(claim(job=None, conditions=[grows], size="9Gi"))
    row = StorageRow("lab-a", "odd", "gpu-lab-a", storage_state(odd))

    assert row.words[-1] == "grows from 5Gi to 9Gi: Resizing a\\x1b[2Jb"


def test_programs_get_all_of_it() -> None:
    """An object has each part with its reason and the whole message, and is JSON."""
    plain = json.loads(json.dumps(ROWS["broken"].plain))

    assert (plain["kind"], plain["tenant"], plain["storage"]) == ("storage", "lab-a", "broken")
    assert (plain["phase"], plain["claim"], plain["prepare"]) == ("Failed", "Bound", "Failed")
    assert (plain["recovery"], plain["job"]) == ("Required", "prepare-data-1")
    assert "404 for https://data.example.com/x" in plain["prepareMessage"]
    assert (plain["claimName"], plain["size"], plain["capacity"]) == ("storage-broken", "5Gi", "5Gi")
    assert ROWS["none"].plain["size"] is None
