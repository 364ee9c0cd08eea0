"""Which pods are told of new keys, and what comes of it when they cannot be."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx2
import pulumi
import pytest
from lightkube import Client

from components import names
from components.cluster import UnreachableError
from components.keys_now import (
    ANNOTATION,
    HOST_KEY_ANNOTATION,
    TUNNEL_ANNOTATION,
    Teller,
    change_of,
    digest,
    keys_hook,
    told_by,
)
from tests.components.test_cluster import client

KEYS = {"authorized_keys": "ssh-ed25519 AAAA alice\n"}
OTHER = {"authorized_keys": "ssh-ed25519 BBBB bob\n"}


def written(new: dict[str, str], old: dict[str, str] | None = None, unit: str = "trainer") -> pulumi.ResourceHookArgs:
    """Give what the engine hands to the hook after it wrote a unit's ConfigMap."""
    labels = names.labels(owner="prod", component="unit", instance=unit, tenant="lab-a")

    def inputs(data: dict[str, str]) -> dict[str, Any]:
        return {"metadata": {"name": f"unit-{unit}-keys", "namespace": "lab-a", "labels": labels}, "data": data}

    before = None if old is None else inputs(old)
    return pulumi.ResourceHookArgs("urn", "id", f"{unit}.lab-a-keys", "type", inputs(new), before)


def sealed(name: str, labels: names.Labels, new: str, old: str | None = None) -> pulumi.ResourceHookArgs:
    """Give what the engine hands to the hook after it wrote a Secret: its files wrapped as a whole."""

    def inputs(text: str) -> dict[str, Any]:
        meta = {"name": name, "namespace": "lab-a", "labels": labels}
        return {"metadata": meta, "stringData": pulumi.Output.secret({"file": text})}

    return pulumi.ResourceHookArgs("urn", "id", name, "type", inputs(new), None if old is None else inputs(old))


OF_UNIT = names.labels(owner="prod", component="unit", instance="trainer", tenant="lab-a")
OF_GATE = names.labels(owner="prod", component="gate", instance="gate")


def pod(name: str, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    """Give a pod as the API server has it."""
    return {"metadata": {"name": name, "namespace": "lab-a", **metadata}, "status": {"phase": phase}}


class Server:
    """An API server with *pods*; it refuses with *code*, and does not answer with none."""

    def __init__(self, *pods: dict[str, Any], code: int | None = 200, refused: str = "PATCH") -> None:
        self.pods, self.code, self.refused = pods, code, refused
        self.asked: list[httpx2.Request] = []
        self.connections = 0

    def connect(self) -> Client:
        """Connect to it."""
        self.connections += 1
        return client(self.answer)

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a list with the pods, a patch with a pod."""
        self.asked.append(request)
        if self.code is None:
            raise httpx2.ConnectTimeout("no answer")
        if self.code != 200 and request.method == self.refused:
            status = {"kind": "Status", "status": "Failure", "code": self.code, "message": "pods is forbidden"}
            return httpx2.Response(self.code, json=status)
        return httpx2.Response(200, json={"items": list(self.pods)} if request.method == "GET" else pod("any"))

    @property
    def patched(self) -> dict[str, str]:
        """Give each patched pod's annotation."""
        return {
            request.url.path.rpartition("/")[2]: told
            for request in self.asked
            if request.method == "PATCH"
            for told in json.loads(request.content)["metadata"]["annotations"].values()
        }

    @property
    def annotations(self) -> list[str]:
        """Name the annotations that were written."""
        said = (json.loads(request.content)["metadata"] for request in self.asked if request.method == "PATCH")
        return [name for meta in said for name in meta["annotations"]]


Wrote = pulumi.ResourceHookArgs | Callable[[], pulumi.ResourceHookArgs]
"""What the hook is handed; what is wrapped is made in the event loop, as the engine's own."""


def tell(teller: Teller, *wrote: Wrote) -> None:
    """Call the hook for each, as the engine does: all at once."""

    async def call() -> None:
        handed = [one() if callable(one) else one for one in wrote]
        for result in await asyncio.gather(*(teller.hear(args) for args in handed), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    asyncio.run(call())


def test_a_running_pod_is_told() -> None:
    """The unit's own pods get the digest of all files; those that are over, or know it, cost no write."""
    server = Server(
        pod("runs", annotations={"other": "x"}),
        pod("knows", annotations={ANNOTATION: digest(OTHER)}),
        pod("starts", "Pending"),
        pod("ended", "Failed"),
        pod("goes", deletionTimestamp="2026-11-21T18:00:00Z"),
    )
    tell(Teller(server.connect), written(OTHER, KEYS))

    assert server.patched == {"runs": digest(OTHER), "starts": digest(OTHER)}
    (asked,) = [request for request in server.asked if request.method == "GET"]
    assert asked.url.path == "/api/v1/namespaces/lab-a/pods"
    assert "app.kubernetes.io/instance=trainer" in asked.url.params["labelSelector"]


@pytest.mark.parametrize("file", ["user_ca", "principals", "authorized_keys"])
def test_every_file_counts(file: str) -> None:
    """A changed authority is as much a change as a changed key."""
    assert digest(KEYS | {file: "changed"}) != digest(KEYS)


def test_unchanged_keys_ask_nothing() -> None:
    """Another label of the ConfigMap is no change of keys: no question and no write."""
    server = Server(pod("runs"))
    tell(Teller(server.connect), written(KEYS, KEYS))

    assert server.asked == []
    assert asyncio.run(change_of(written(KEYS, KEYS))) is None


@pytest.mark.parametrize(
    ("secret", "labels", "annotation", "instance"),
    [
        ("unit-trainer-host-key", OF_UNIT, HOST_KEY_ANNOTATION, "trainer"),
        ("unit-trainer-tunnel", OF_UNIT, TUNNEL_ANNOTATION, "trainer"),
        ("gate", OF_GATE, ANNOTATION, "gate"),
    ],
)
def test_of_a_secret_pods_are_told_too(secret: str, labels: names.Labels, annotation: str, instance: str) -> None:
    """Host key, tunnel client's files and the gate's keys: each by an annotation that shows nothing of them."""
    server = Server(pod("runs"))
    tell(Teller(server.connect), partial(sealed, secret, labels, "new-secret", "old-secret"))

    assert server.annotations == [annotation]
    assert server.patched == {"runs": digest({"file": "new-secret"})}
    assert f"instance={instance}" in server.asked[0].url.params["labelSelector"]
    assert b"new-secret" not in server.asked[1].content


def test_an_unchanged_secret_asks_nothing() -> None:
    """What is wrapped is compared by what it wraps."""
    server = Server(pod("runs"))
    tell(Teller(server.connect), partial(sealed, "unit-trainer-host-key", OF_UNIT, "same", "same"))

    assert server.asked == []


@pytest.mark.parametrize(
    ("secret", "labels", "said"),
    [
        ("unit-trainer-host-key", OF_UNIT, r"unit trainer\.lab-a: .* its host key changed"),
        ("unit-trainer-tunnel", OF_UNIT, r"unit trainer\.lab-a: .* its tunnel's files changed"),
        ("gate", OF_GATE, r"^gate: .* its keys changed"),
    ],
)
def test_what_could_not_be_told_is_named(secret: str, labels: names.Labels, said: str) -> None:
    """The warning says whose pod does not know what, and never the secret."""
    with pytest.raises(RuntimeError, match=said) as refused:
        tell(Teller(Server(pod("runs"), code=403).connect), partial(sealed, secret, labels, "new-secret"))
    assert "new-secret" not in str(refused.value)


def test_without_a_cluster_nobody_is_told() -> None:
    """Offline there is no hook, and no object has one."""
    assert told_by(None, "keys") == {}


def test_no_pod_is_nothing_to_do() -> None:
    """A unit that is made, or stopped, has no pod to tell."""
    server = Server()
    tell(Teller(server.connect), written(KEYS))

    assert server.patched == {}


@pytest.mark.parametrize("refused", ["GET", "PATCH"])
def test_who_may_not_is_told_what_it_means(refused: str) -> None:
    """Without the right, the unit, the reason and the slow path are said; the next unit is tried all the same."""
    server = Server(pod("runs"), code=403, refused=refused)
    teller = Teller(server.connect)
    with pytest.raises(RuntimeError, match=r"unit trainer\.lab-a: .*pods is forbidden.*within 60 to 90 seconds"):
        tell(teller, written(OTHER, KEYS))
    asked = len(server.asked)
    with pytest.raises(RuntimeError, match=r"unit other\.lab-a"):
        tell(teller, written(OTHER, KEYS, "other"))
    assert len(server.asked) > asked


def test_a_pod_that_went_needs_no_word() -> None:
    """A pod that is deleted between question and write is no failure."""
    tell(Teller(Server(pod("runs"), code=404).connect), written(OTHER, KEYS))


def test_nobody_waits_for_a_dead_cluster_twice() -> None:
    """When the API server does not answer, each unit is warned of, and only the first one waits."""
    server = Server(code=None)
    teller = Teller(server.connect)
    for unit in ("trainer", "other"):
        with pytest.raises(RuntimeError, match=rf"unit {unit}\.lab-a.*no answer"):
            tell(teller, written(OTHER, KEYS, unit))
    assert len(server.asked) == 1


def test_a_kubeconfig_that_is_gone_is_a_warning_too() -> None:
    """Whatever keeps the cluster from being asked ends in a RuntimeError, which the engine shows and goes on."""
    with pytest.raises(RuntimeError, match="no such context"):
        tell(Teller(failing), written(OTHER, KEYS))


def failing() -> Client:
    """Connect to nothing."""
    raise UnreachableError("it has no such context")


def test_the_hook_is_one_that_the_engine_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made without asking the cluster, runs in no preview, and an error of it is a warning."""
    monkeypatch.setattr("pulumi.resource_hooks.register_resource_hook", lambda _: None)
    hook = keys_hook("/nowhere", "rig")

    assert hook.opts
    assert (hook.opts.on_dry_run, hook.opts.ignore_errors) == (False, True)
    with pytest.raises(RuntimeError, match="60 to 90 seconds"):
        asyncio.run(call(hook))


async def call(hook: pulumi.ResourceHook) -> None:
    """Run *hook* as the engine's callback does."""
    if waiting := hook(written(OTHER, KEYS)):
        await waiting


def test_many_units_share_one_connection() -> None:
    """Three hundred units that change at once take turns on one client: a list and a write each."""
    server = Server(pod("runs"))
    tell(Teller(server.connect), *(written(OTHER, KEYS, f"unit-{number}") for number in range(300)))

    assert server.connections == 1
    assert len(server.asked) == 600
