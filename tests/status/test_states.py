"""States and reasons of a unit: the first rule that matches decides."""

import pytest
from status.evidence import Evidence, evidence
from status.failures import ending
from status.objects import Seen
from status.states import Phase, Ssh, state_of

from tests.status.objects import (
    BEGUN,
    DONE,
    ENDED,
    RUNNING,
    claim,
    container,
    deployment,
    ended,
    event,
    job,
    link,
    pod,
    starting,
    unscheduled,
    waiting,
)

UP = (container("tunnel", RUNNING), container("unit", RUNNING))
BACK_OFF = 'Back-off pulling image "nobody/has:it"'
NO_GPU = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
UNBOUND = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
EXIT = container("exit", RUNNING, ended(3, message="the program ended with 3 after 60 s"))
OLD_EXIT = container(
    "exit", RUNNING, ended(3, message="the program ended with 3 after 60 s", finished="2025-01-01T00:00:00Z")
)
CRASHED = container("unit", waiting("CrashLoopBackOff", "back-off 10s"), ended(7, message="no data"), restarts=4)
KILLED = container("unit", waiting("CrashLoopBackOff"), ended(137, "OOMKilled"), restarts=1)
REFUSED = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: tenant"}

SOURCE = {"persistentVolumeClaim": {"claimName": "storage-a", "readOnly": True}}
COPYING = job("storage-b")
COPYING["spec"]["template"]["spec"]["volumes"].append(SOURCE)

PHASES: dict[str, tuple[Seen, str, str, str]] = {
    "no Deployment": (Seen(None), "Absent", "NotDeployed", "run `up`"),
    "no replicas, no pod": (Seen(deployment(replicas=0)), "Stopped", "NotRunning", "running: false"),
    "no replicas, a pod": (Seen(deployment(replicas=0), (pod(*UP),)), "Stopping", "Terminating", ""),
    "Deployment goes": (
        Seen(deployment(metadata={"deletionTimestamp": BEGUN}), (pod(*UP),)),
        "Stopping",
        "Terminating",
        "",
    ),
    "program over, held": (
        Seen(deployment(gpus=2), (pod(EXIT, *UP),)),
        "Exited(3)",
        "ProgramEnded",
        "after 60 s; it holds 2 GPUs",
    ),
    "program over, started anew since": (Seen(deployment(), (pod(OLD_EXIT, *UP),)), "Ready", "UnitReady", ""),
    "exit container died otherwise": (
        Seen(deployment(), (pod(container("exit", RUNNING, ended(137, "OOMKilled")), *UP),)),
        "Ready",
        "UnitReady",
        "",
    ),
    "available": (Seen(deployment(), (pod(*UP),)), "Ready", "UnitReady", ""),
    "available again": (
        Seen(deployment(), (pod(container("unit", RUNNING, ended(1, message="oops"), restarts=2)),)),
        "Ready",
        "UnitReady",
        "started again 2 times; before, its program ended with 1 after 3 s: oops",
    ),
    "available, but that is the old template": (
        Seen(deployment(metadata={"generation": 2}), (pod(*UP),)),
        "Progressing",
        "NotReady",
        "starting",
    ),
    "old pod gone, no new one": (
        Seen(deployment(status={}), (pod(*UP, metadata={"deletionTimestamp": ENDED}),)),
        "Progressing",
        "UnitProgressing",
        "its old pod has been told to end",
    ),
    "no pod yet": (Seen(deployment(status={})), "Progressing", "UnitProgressing", "no pod yet"),
    "no pod may be made": (
        Seen(deployment(status={"conditions": [REFUSED]})),
        "Failed",
        "FailedCreate",
        "exceeded quota: tenant",
    ),
    "crash loop": (
        starting(CRASHED),
        "Failed",
        "CrashLoopBackOff",
        "its program ended with 7 after 3 s: no data (started again 4 times)",
    ),
    "out of memory": (starting(KILLED), "Failed", "CrashLoopBackOff", "OOMKilled"),
    "image": (
        starting(container("unit", waiting("ImagePullBackOff", BACK_OFF))),
        "Failed",
        "ImagePullBackOff",
        BACK_OFF,
    ),
    "image of an init container": (
        starting(container("accounts", waiting("ErrImagePull", "no such host"))),
        "Failed",
        "ErrImagePull",
        "container accounts: no such host",
    ),
    "init container first": (
        starting(container("bundle", ended(2)), container("unit", waiting("InvalidImageName"))),
        "Failed",
        "ExitedWithError",
        "container bundle ended with 2",
    ),
    "ended with an error": (
        starting(container("unit", ended(5, message="boom"))),
        "Failed",
        "ExitedWithError",
        "ended with 5 after 3 s: boom",
    ),
    "a missing Secret": (
        starting(container("unit", waiting("CreateContainerConfigError", 'secret "x" not found'))),
        "Failed",
        "CreateContainerConfigError",
        'secret "x" not found',
    ),
    "evicted": (
        starting(phase="Failed", status={"reason": "Evicted", "message": "disk pressure"}),
        "Failed",
        "Evicted",
        "disk pressure",
    ),
    "a volume that is lost": (
        starting(mounts=["storage-a"], claims=(claim("storage-a", "Lost"),)),
        "Progressing",
        "StorageNotReady",
        "storage-a is lost",
    ),
    "a volume that is being filled": (
        starting(
            mounts=["storage-a", "storage-b"], claims=(claim("storage-a"), claim("storage-b")), jobs=(job("storage-b"),)
        ),
        "Progressing",
        "StorageNotReady",
        "storage-b is being filled",
    ),
    "a volume that is copied, by now": (
        starting(mounts=["storage-a"], claims=(claim("storage-a"),), jobs=(COPYING,)),
        "Progressing",
        "UnitProgressing",
        "its pod starts",
    ),
    "a volume that cannot be filled": (
        starting(mounts=["storage-a"], claims=(claim("storage-a"),), jobs=(job("storage-a", ("Failed", "deadline")),)),
        "Progressing",
        "StorageNotReady",
        "storage-a cannot be filled: deadline",
    ),
    "a volume that is filled": (
        starting(mounts=["storage-a"], claims=(claim("storage-a"),), jobs=(job("storage-a", ("Complete", "")),)),
        "Progressing",
        "UnitProgressing",
        "its pod starts",
    ),
    "a volume that is being copied": (
        starting(mounts=["storage-a"], claims=(claim("storage-a"),), jobs=(job("storage-b", source="storage-a"),)),
        "Progressing",
        "UnitProgressing",
        "its pod starts",
    ),
    "another's volume": (
        starting(
            mounts=["storage-a"], claims=(claim("storage-a"), claim("storage-b", "Lost")), jobs=(job("storage-b"),)
        ),
        "Progressing",
        "UnitProgressing",
        "its pod starts",
    ),
    "a volume that is not to be had": (
        starting(
            mounts=["storage-a", "storage-b"], claims=(claim("storage-a", "Pending"),), conditions=unscheduled(UNBOUND)
        ),
        "Progressing",
        "StorageNotReady",
        "storage-a is not bound, storage-b does not exist",
    ),
    "a volume that waits for its first pod": (
        starting(mounts=["storage-a"], claims=(claim("storage-a", "Pending"),), conditions=unscheduled(NO_GPU)),
        "Pending",
        "Unschedulable",
        NO_GPU,
    ),
    "no node": (starting(conditions=unscheduled(NO_GPU), phase="Pending"), "Pending", "Unschedulable", NO_GPU),
    "pulls": (
        starting(
            container("unit", waiting("PodInitializing")),
            events=(event("Pulling", 'Pulling image "big"', at=ENDED), event("Scheduled", "assigned")),
        ),
        "Progressing",
        "Pulling",
        'Pulling image "big"',
    ),
    "cannot mount": (
        starting(container("unit", waiting("ContainerCreating")), events=(event("FailedMount", "no such", "Warning"),)),
        "Progressing",
        "FailedMount",
        "no such",
    ),
    "prepares": (
        starting(
            container("bundle", DONE), container("accounts", RUNNING), container("unit", waiting("PodInitializing"))
        ),
        "Progressing",
        "UnitProgressing",
        "container accounts starts",
    ),
    "not ready by its own probe": (
        starting(*UP, events=(event("Unhealthy", "Readiness probe failed: 503", "Warning"),)),
        "Progressing",
        "NotReady",
        "Readiness probe failed: 503",
    ),
}


@pytest.mark.parametrize(("seen", "phase", "reason", "message"), PHASES.values(), ids=PHASES)
def test_a_unit_is_in_one_phase_for_one_reason(seen: Seen, phase: str, reason: str, message: str) -> None:
    """Every situation has its phase, its reason and words that say what is the matter."""
    verdict = state_of(seen).unit

    assert (verdict.text, verdict.reason) == (phase, reason)
    assert message in verdict.message


TWO = (link("frps-0", "announced"), link("frps-1", "announced"))
DOWN = link("frps-1", "down", "token mismatch")


def up(*log: str) -> Seen:
    """Give a unit that runs and whose tunnel client says *log*."""
    return Seen(deployment(), (pod(*UP),), log=log)


LOGINS: dict[str, tuple[Seen, Ssh, str, str]] = {
    "no ssh": (Seen(deployment(ssh=False), (pod(*UP),)), Ssh.DISABLED, "NoSsh", ""),
    "stopped": (Seen(deployment(replicas=0)), Ssh.PENDING, "NotRunning", "running: false"),
    "stopping": (Seen(deployment(replicas=0), (pod(*UP),), log=TWO), Ssh.PENDING, "Terminating", "told to end"),
    "announced by all": (up(*TWO), Ssh.REACHABLE, "Announced", ""),
    "announced, the program over": (Seen(deployment(), (pod(EXIT, *UP),), log=TWO), Ssh.REACHABLE, "Announced", ""),
    "announced, not ready": (starting(*UP, log=TWO), Ssh.REACHABLE, "Announced", ""),
    "announced by some": (
        up(TWO[0], DOWN),
        Ssh.REACHABLE,
        "AnnouncedInPart",
        "by 1 of 2 servers: frps-1 down (token mismatch)",
    ),
    "the newest counts": (
        up(*TWO, link("frps-0", "down"), DOWN),
        Ssh.PENDING,
        "NotConnected",
        "frps-0 down, frps-1 down",
    ),
    "a server that is no longer listed": (
        up(DOWN, link("frps-0", "announced", servers=("frps-0",))),
        Ssh.REACHABLE,
        "Announced",
        "",
    ),
    "login refused": (up(DOWN), Ssh.PENDING, "NotConnected", "token mismatch"),
    "host refused": (up(DOWN, link("frps-0", "refused", "not yours")), Ssh.PENDING, "HostRefused", "not yours"),
    "sshd not up": (up(link("frps-0", "idle", "sshd is not up")), Ssh.PENDING, "SshdNotReady", "sshd is not up"),
    "nothing known": (up(link("frps-0", "unknown")), Ssh.PENDING, "NotAnnounced", "frps-0 unknown"),
    "nothing said": (up(), Ssh.PENDING, "NoEvidence", "nothing lately"),
    "no files": (
        up('{"event": "waiting-for-files", "reason": "token: not there"}'),
        Ssh.PENDING,
        "NoEvidence",
        "token: not there",
    ),
    "not read": (Seen(deployment(), (pod(*UP),)), Ssh.PENDING, "NotRead", "was not read"),
    "noise": (up("panic: no JSON", "[]", '"link"', '{"event": "link"}', *TWO), Ssh.REACHABLE, "Announced", ""),
    "image": (
        starting(container("tunnel", RUNNING), container("unit", waiting("ImagePullBackOff", BACK_OFF)), log=TWO),
        Ssh.PENDING,
        "ImagePullBackOff",
        BACK_OFF,
    ),
    "tunnel client fails": (
        starting(
            container("tunnel", waiting("CrashLoopBackOff"), ended(1, message="no frpc")),
            container("unit", RUNNING),
            log=TWO,
        ),
        Ssh.FAILED,
        "CrashLoopBackOff",
        "no frpc",
    ),
}


@pytest.mark.parametrize(("seen", "state", "reason", "message"), LOGINS.values(), ids=LOGINS)
def test_a_login_works_where_the_tunnel_says_so(seen: Seen, state: Ssh, reason: str, message: str) -> None:
    """Reachable is what the tunnel client's newest words say, whatever the pod's readiness; else there is a reason."""
    ssh = state_of(seen).ssh

    assert (ssh.state, ssh.reason) == (state, reason)
    assert message in ssh.message


def test_the_newest_pod_counts() -> None:
    """What an old pod says is no matter once there is a younger one; one on its way out counts for nothing."""
    old = pod(CRASHED, name="old")
    young = pod(*UP, name="young", metadata={"creationTimestamp": "2026-01-02T00:00:00Z"})
    going = pod(
        CRASHED, name="going", metadata={"creationTimestamp": "2026-01-03T00:00:00Z", "deletionTimestamp": ENDED}
    )
    state = state_of(Seen(deployment(gpus=1), (young, going, old)))

    assert (state.unit.phase, state.restarts, state.gpus) == (Phase.READY, 0, 1)
    assert state.created == "2026-01-02T00:00:00Z"


def test_an_empty_log_is_no_evidence() -> None:
    """No line is no proof of anything."""
    assert evidence([]) == Evidence()
    assert not evidence([]).whole


def test_last_words_play_no_tricks_with_a_terminal() -> None:
    """A tenant's program wrote them: what would clear a screen, overwrite or turn a line is shown as what it is."""
    last = ended(1, message="\x1b[2J\x07caf\u00e9\rover \u202egnp.exe\n\tnext\x9b31m")["terminated"]

    assert ending("prepare", last).endswith("3 s: \\x1b[2J\\x07caf\u00e9\\rover \\u202egnp.exe\n\tnext\\x9b31m")
