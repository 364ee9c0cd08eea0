"""When `up` stops waiting for a unit."""

import pytest
from status.objects import Object, Seen
from status.states import state_of

from components.patience import PART_SECONDS, TROUBLE_SECONDS, Outcome, Wait
from tests.status.objects import (
    RUNNING,
    container,
    deployment,
    ended,
    link,
    pod,
    starting,
    unscheduled,
    waiting,
)

START, TIMEOUT = 10.0, 600.0
BOTH = (link("frps-0", "announced"), link("frps-1", "announced"))
ONE = (link("frps-0", "announced"), link("frps-1", "down"))
LATE = "2026-01-01T00:01:00Z"
EXIT = container("exit", RUNNING, ended(3, message="the program ended with 3 after 60 s"))


def up(*log: str, ssh: bool = True, status: Object | None = None) -> Seen:
    """Give a unit that runs."""
    containers = (container("tunnel", RUNNING),) if ssh else ()
    made = deployment(ssh=ssh, **({"status": status} if status else {}))
    return Seen(made, (pod(*containers, container("unit", RUNNING)),), log=log)


def outcomes(*looks: tuple[float, Seen], start: float = START) -> list[Outcome | None]:
    """Look at each moment; give what came of it."""
    wait = Wait("u.lab-a", TIMEOUT, start, 0.0)
    return [wait.look(seen, state_of(seen), now) for now, seen in looks]


def last(*looks: tuple[float, Seen], start: float = START) -> tuple[bool, bool, str] | None:
    """Give the last outcome: arrived, with a warning, message."""
    found = outcomes(*looks, start=start)
    assert not any(found[:-1]), f"it ended early: {found}"
    return (found[-1].arrived, found[-1].warning, found[-1].message) if found[-1] else None


@pytest.mark.parametrize(("begin", "end"), [(0.0, START), (30.0, 30.0 + START)], ids=["at once", "after a while"])
def test_a_login_and_a_program_that_runs_are_an_arrival(begin: float, end: float) -> None:
    """A unit with SSH has arrived when a login works and its program has run for as long as it must."""
    assert last((begin, up(*BOTH)), (end - 1, up(*BOTH))) is None
    assert last((begin, up(*BOTH)), (end, up(*BOTH))) == (True, False, "a login works")


def test_without_a_program_a_login_is_enough() -> None:
    """Where nothing could end with an error, nothing more is waited for."""
    assert last((0.0, up(*BOTH)), start=0) == (True, False, "a login works")


def test_one_server_will_do_after_a_while() -> None:
    """A login by some of the servers is an arrival with a warning, once the others had their time."""
    assert last((0.0, up(*ONE)), (PART_SECONDS - 1, up(*ONE)), start=0) is None
    arrived = last((0.0, up(*ONE)), (PART_SECONDS, up(*ONE)), start=0)
    assert arrived == (True, True, "a login works by 1 of 2 servers: frps-1 down")


def test_an_announcement_that_goes_counts_anew() -> None:
    """The time of the other servers begins when the first login works, again if that was lost."""
    lost = up(link("frps-0", "down"), link("frps-1", "down"))
    assert last((0.0, up(*ONE)), (5.0, lost), (6.0, up(*ONE)), (PART_SECONDS, up(*ONE)), start=0) is None


def test_without_ssh_a_program_that_runs_is_an_arrival() -> None:
    """A unit without SSH has arrived when it is ready and has run for as long as it must; a new start counts anew."""
    again = Seen(deployment(ssh=False), (pod(container("unit", {"running": {"startedAt": LATE}})),))
    assert last((0.0, up(ssh=False)), (START, up(ssh=False))) == (True, False, "runs")
    assert last((0.0, up(ssh=False)), (START, again)) is None
    unready = up(ssh=False, status={"observedGeneration": 1, "updatedReplicas": 1})
    assert last((0.0, unready), (START, unready)) is None


def test_a_unit_that_is_stopped_has_arrived_when_its_pod_is_gone() -> None:
    """While its pod ends its tunnel client is still announced, and that is no arrival of anything."""
    ending_now = Seen(deployment(replicas=0), up().pods, log=BOTH)
    assert last((0.0, ending_now), (START, ending_now)) is None
    assert last((0.0, ending_now), (START, Seen(deployment(replicas=0)))) == (True, False, "stopped")


def test_who_may_not_read_logs_is_told_so() -> None:
    """Without the right to read logs a running unit is an arrival, with a warning that nobody knows of a login."""
    blind = Seen(up().deployment, up().pods, log=None)
    arrived = last((0.0, blind), start=0)
    assert arrived is not None
    assert arrived[:2] == (True, True)
    assert "pods/log" in arrived[2]


EARLY: dict[str, Seen] = {
    "now": starting(container("unit", ended(3, message="no data"))),
    "the time before": starting(container("unit", RUNNING, ended(3, message="no data"), restarts=1), log=BOTH),
    "waiting for the next": starting(container("unit", waiting("CrashLoopBackOff"), ended(3, message="no data"))),
}


@pytest.mark.parametrize("seen", EARLY.values(), ids=EARLY)
def test_an_early_end_with_an_error_is_a_failure_at_once(seen: Seen) -> None:
    """A program that ends with an error right after its start is told with its last words, and not waited for."""
    assert last((0.0, seen)) == (False, False, "its program ended with 3 after 3 s: no data")


def test_a_late_end_is_none() -> None:
    """A program that worked for a while and ended is started again, and waited for."""
    late = ended(3, finished=LATE)
    assert last((0.0, starting(container("unit", RUNNING, late, restarts=1)))) is None


def test_a_crash_loop_is_a_failure_at_once() -> None:
    """What Kubernetes starts again and again is broken, with or without an error, whatever it took."""
    looping = starting(container("unit", waiting("CrashLoopBackOff"), ended(0, "Completed", finished=LATE), restarts=2))
    outcome = last((0.0, looping))
    assert outcome is not None
    assert (outcome[0], outcome[2]) == (
        False,
        "CrashLoopBackOff: its program ended with 0 after 60 s (started again 2 times)",
    )


NO_IMAGE = starting(container("unit", waiting("ImagePullBackOff", "no such image")))
NO_TUNNEL = Seen(up().deployment, (pod(container("tunnel", waiting("ImagePullBackOff", "no such image"))),), log=())


@pytest.mark.parametrize("seen", [NO_IMAGE, NO_TUNNEL], ids=["unit", "tunnel"])
def test_other_trouble_gets_its_time(seen: Seen) -> None:
    """An image that is not to be had is tried some times before it is a failure, long before the timeout."""
    assert last((0.0, seen), (TROUBLE_SECONDS - 1, seen)) is None
    outcome = last((0.0, seen), (TROUBLE_SECONDS, seen))
    assert outcome is not None
    assert outcome[0] is False
    assert outcome[2].startswith("ImagePullBackOff: ")
    assert TROUBLE_SECONDS < TIMEOUT


def test_trouble_that_passes_is_none() -> None:
    """A failure that mends itself is forgotten."""
    assert last((0.0, NO_IMAGE), (40.0, starting()), (50.0, NO_IMAGE), (90.0, NO_IMAGE)) is None


def test_no_node_is_waited_for_until_the_timeout() -> None:
    """A GPU may come free: it is waited for, and then told in the scheduler's words."""
    full = starting(conditions=unscheduled("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."))
    assert last((0.0, full), (TIMEOUT - 1, full)) is None
    outcome = last((0.0, full), (TIMEOUT, full))
    assert outcome is not None
    assert outcome[0] is False
    assert outcome[2] == (
        "not there after 600 s (its timeout): Pending, Unschedulable: "
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    )


def test_a_login_that_does_not_come_is_told_with_its_reason() -> None:
    """At the timeout of a unit that runs, the reason is the tunnel client's."""
    refused = up(link("frps-0", "refused", "not yours"))
    outcome = last((0.0, refused), (TIMEOUT, refused))
    assert outcome is not None
    assert "Ready, ssh Pending, HostRefused: frps-0 refused (not yours)" in outcome[2]


OLD: dict[str, Seen] = {
    "not yet seen by Kubernetes": Seen(deployment(metadata={"generation": 2}), up().pods, log=BOTH),
    "the old pod is about to go": up(*BOTH, status={"observedGeneration": 1, "availableReplicas": 1}),
    "no Deployment": Seen(None),
    "old failure": Seen(deployment(metadata={"generation": 2}), (pod(container("unit", ended(3))),)),
}


@pytest.mark.parametrize("seen", OLD.values(), ids=OLD)
def test_the_pod_of_before_is_no_matter(seen: Seen) -> None:
    """Neither a login to the old pod nor its failure says anything of the new one."""
    assert last((0.0, seen), (60.0, seen)) is None
    outcome = last((0.0, seen), (TIMEOUT, seen))
    assert outcome is not None
    assert outcome[0] is False


def test_a_stopped_unit_has_arrived_when_its_pod_is_gone() -> None:
    """What shall not run is waited for as well."""
    going = Seen(deployment(replicas=0), up().pods)
    assert last((0.0, going)) is None
    assert last((0.0, Seen(deployment(replicas=0)))) == (True, False, "stopped")


def test_a_held_end_is_an_arrival_with_a_warning() -> None:
    """A program that worked, then ended with an error, is held for its owner: `up` says so and goes on."""
    held = Seen(deployment(), (pod(EXIT, container("tunnel", RUNNING), container("unit", RUNNING)),), log=BOTH)
    outcome = last((0.0, held))
    assert outcome is not None
    assert outcome[:2] == (True, True)
    assert outcome[2].startswith("Exited(3): the program ended with 3")
