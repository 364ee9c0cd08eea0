"""A fresh probe: made like the graph's, judged by its exit status, and gone whatever happens."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from lightkube import ApiError, codecs
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Event

from components import cluster
from components.probe import ProbeSpec, probe_manifests
from tests.stack_files import image
from tools.probe import fresh
from tools.probe.fresh import Site, Verdict, prove, refusal
from tools.shell import ToolError
from tools.stack import __main__ as commands

SITE = Site("dev", "/nowhere/kubeconfig", "somewhere")
TARGETS = ({"name": "API server"},)


def graph_job(name: str, created: str) -> Any:
    """Give the graph's Job as the cluster has it."""
    manifest = probe_manifests(ProbeSpec("dev", image(name), TARGETS, ()))["job"]
    manifest["metadata"] |= {"name": name, "creationTimestamp": created}
    return codecs.from_dict(manifest)


def ended(status: int, message: str = "") -> dict[str, Any]:
    """Give the status of a pod whose container ended."""
    state = {"terminated": {"exitCode": status, "message": message}}
    container = {"name": "probe", "image": "x", "imageID": "x", "ready": False, "restartCount": 0, "state": state}
    return {"phase": "Failed" if status else "Succeeded", "containerStatuses": [container]}


@dataclass
class Cluster:
    """Stands for lightkube's client: a cluster with one probe."""

    status: dict[str, Any]
    log_lines: list[str] = field(default_factory=list)
    jobs: list[Any] = field(default_factory=lambda: [graph_job("probe-b", "2026-01-02T00:00:00Z")])
    made: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    """Given: there is no pod, and this is why."""
    deleted: list[str] = field(default_factory=list)
    at_list: Callable[[], None] = lambda: None

    def list(self, kind: type, *, namespace: str, labels: Any = None, fields: Any = None) -> Iterator[Any]:
        assert namespace == "gpu-runtime-probe-dev"
        if kind is Event:
            assert fields == {"involvedObject.name": "probe-fresh-x"}
            return iter(self.events)
        if kind is Job:
            assert labels == {"app.kubernetes.io/component": "probe"}
            return iter([*self.jobs, *self.made])
        assert labels == {"job-name": "probe-fresh-x"}
        self.at_list()
        if self.events:
            return iter(())
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": self.status}
        return iter([codecs.from_dict(pod)])

    def create(self, job: Any) -> Any:
        job.metadata.name = "probe-fresh-x"
        self.made.append(job)
        return job

    def delete(self, kind: type, name: str, **_: object) -> None:
        assert kind is Job
        self.deleted.append(name)

    def log(self, name: str, **_: object) -> Iterator[str]:
        assert name == "p"
        return iter(self.log_lines)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Cluster], Cluster]:
    """Put a cluster in the place of the real one."""
    monkeypatch.setattr(fresh, "POLL_SECONDS", 0.001)

    def put(there: Cluster) -> Cluster:
        monkeypatch.setattr(cluster, "connect", lambda *_: there)
        return there

    return put


Use = Callable[[Cluster], Cluster]


def log(*, ok: bool, **wrong: str) -> list[str]:
    """Give the end of a probe's log."""
    return ["a table\n", json.dumps({"ok": ok, "targets": 3, "wrong": wrong}) + "\n", "a sentence\n"]


def test_walls_that_hold(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says so; the Job is gone, the graph's stays."""
    there = use(Cluster(ended(0), log(ok=True)))

    prove(SITE)

    assert there.deleted == ["probe-fresh-x"]
    said = capsys.readouterr().err
    assert said.startswith("walls hold: 3 targets tried in ")
    assert "a table" not in said


def test_walls_that_do_not_hold(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    """The table is shown, and the sentence names what answers and what to do."""
    there = use(Cluster(ended(1), log(ok=False, kubelet="open", gate="open")))

    with pytest.raises(ToolError, match=r"policies are not enforced on this cluster: kubelet, gate answer .*; look"):
        prove(SITE)

    assert there.deleted == ["probe-fresh-x"]
    assert "a table" in capsys.readouterr().err


def test_the_fresh_job_is_the_graphs_newest(use: Use) -> None:
    """What runs is what the last `up` made, with no name, owner or label that the cluster gave to that one."""
    there = use(Cluster(ended(0), log(ok=True)))
    there.jobs = [graph_job("probe-b", "2026-01-02T00:00:00Z"), graph_job("probe-a", "2026-01-01T00:00:00Z")]
    there.jobs[0].spec.template.metadata.labels |= {"job-name": "probe-b", "batch.kubernetes.io/controller-uid": "7"}

    prove(SITE)

    (made,) = there.made
    assert made.spec.template.spec.containers[0].image == image("probe-b")
    assert made.metadata.generateName == "probe-fresh-"
    labels = made.spec.template.metadata.labels
    assert labels == there.jobs[0].metadata.labels
    assert labels["gpu-runtime/tenant"] == "gpu-runtime.probe"
    assert (made.spec.selector, made.spec.backoffLimit) == (None, 0)
    assert made.spec.ttlSecondsAfterFinished > 0


def test_a_stack_that_is_not_up_has_nothing_to_try(use: Use) -> None:
    """Without a Job of the graph nobody knows, and that is said with what makes one."""
    use(Cluster(ended(0), jobs=[]))

    with pytest.raises(
        ToolError, match="no probe in namespace gpu-runtime-probe-dev; `make up STACK=dev REFRESH=1` makes"
    ):
        prove(SITE)


def test_a_pod_that_cannot_be_made_is_told_with_the_reason(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota or an admission that refuses the pod ends the wait at once, with its own words; the Job goes."""
    monkeypatch.setattr(fresh, "HEARTBEAT_SECONDS", 0)
    said = "Error creating: pods is forbidden: exceeded quota: pods=0"
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {}}
    there = use(Cluster(ended(0), events=[codecs.from_dict({**event, "reason": "FailedCreate", "message": said})]))

    with pytest.raises(ToolError, match="exceeded quota: pods=0"):
        prove(SITE)
    assert there.deleted == ["probe-fresh-x"]


def test_an_interrupted_run_leaves_nothing(use: Use) -> None:
    """Ctrl-C takes the Job away too."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    there = use(Cluster(ended(0), at_list=interrupt))

    with pytest.raises(KeyboardInterrupt):
        prove(SITE)
    assert there.deleted == ["probe-fresh-x"]


def test_a_cluster_that_does_not_answer_proves_nothing(use: Use) -> None:
    """A dead connection is an error of one sentence, never a pass."""

    def fail() -> None:
        raise httpx2.ConnectError("connection refused")

    use(Cluster(ended(0), at_list=fail))

    with pytest.raises(ToolError, match="nobody knows whether the walls hold: connection refused"):
        prove(SITE)


def test_a_pod_that_never_ends_is_given_up(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod's own reason is in the sentence."""
    why = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    there = use(Cluster({"phase": "Pending", "conditions": [why]}))
    monkeypatch.setattr(fresh, "PATIENCE_SECONDS", 0.05)

    with pytest.raises(ToolError, match="nobody knows whether the walls hold: pod p is Pending: 0/1 nodes"):
        prove(SITE)
    assert there.deleted == ["probe-fresh-x"]


def test_without_a_log_the_pods_message_counts(use: Use) -> None:
    """The way to a node's kubelet may be closed; the verdict is in the pod's status too."""
    there = use(Cluster(ended(1, "NetworkPolicies are not enforced: 2 forbidden targets answer")))

    def refuse(*_: object, **__: object) -> Iterator[str]:
        raise ApiError(response=httpx2.Response(500, json={"message": "no route", "code": 500}, request=ASKED))

    there.log = refuse  # type: ignore[method-assign]

    with pytest.raises(ToolError, match="ended with status 1: NetworkPolicies are not enforced: 2 forbidden"):
        prove(SITE)


ASKED = httpx2.Request("GET", "https://somewhere")


def test_what_could_not_be_tried_is_no_pass() -> None:
    """Without an answer of cluster DNS nothing is known, and the advice is another."""
    said = refusal(Verdict(1, "\n".join(log(ok=False, **{"cluster DNS, UDP": "closed"}))))

    assert said.startswith("nobody knows whether the walls hold: cluster DNS, UDP")
    assert "gpu-runtime:cluster.dns" in said


@pytest.mark.parametrize(("status", "proved"), [(0, ["dev"]), (255, [])])
def test_make_up_of_another_stack_ends_with_a_probe(
    monkeypatch: pytest.MonkeyPatch, status: int, proved: list[str]
) -> None:
    """After every `up` that went through, and not after one that did not."""
    asked: list[str] = []
    monkeypatch.setattr(commands, "_demand", lambda _: None)
    monkeypatch.setattr("tools.stack.engine.Engine.interactive", lambda *_: status)
    monkeypatch.setattr("tools.probe.sites.prove_stack", lambda stack, **_: asked.append(stack.owner))
    monkeypatch.setattr("sys.argv", ["stack", "up", "--stack", "dev"])

    assert commands.main() == status
    assert asked == proved
