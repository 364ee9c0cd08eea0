"""Browsers of storages on a real cluster: what they show, when, where, and to whom.

The last test has one fail, and so comes after the one that finds nothing failed.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Event, Pod, Service

from components import names
from e2e.conftest import made, on_a_fresh_rig
from e2e.netns import Try, finish, pid_of, space_of, start
from e2e.phases import during, states
from e2e.world import World, rolled_out, wait_until
from tests.spaces import Site

pytestmark = pytest.mark.e2e

STORAGES = ("dataset", "inbox", "home")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a stack with three browsers, each of which serves."""
    with on_a_fresh_rig(tmp_path_factory.mktemp("browser"), "browser") as bare:
        world = made(bare)
        wait_until(lambda: all(ready(world, storage) for storage in STORAGES), "the browsers to serve")
        yield world


def ready(world: World, storage: str) -> bool:
    """Say whether the kubelet finds the browser serving."""
    return rolled_out(world, names.browser(storage), "lab-a")


def cluster(world: World) -> Any:
    """Give the connection to the cluster; what an object lacks fails its test."""
    return world.cluster


def pod_of(world: World, component: str, instance: str, namespace: str = "lab-a") -> Any:
    """Give the one pod of an instance."""
    labels: dict[str, Any] = dict(names.selector(component, instance))
    (pod,) = cluster(world).list(Pod, namespace=namespace, labels=labels)
    return pod


def site(world: World, storage: str) -> Site:
    """Give a browser as it is seen from its own pod, where no wall is."""
    space = space_of(pid_of(str(pod_of(world, "browser", storage).metadata.uid)))
    return Site(space, "127.0.0.1", names.BROWSER_PORT)


def path(storage: str) -> str:
    """Give where a storage's files are."""
    return names.browser_path("lab-a", storage)


def test_what_was_prepared_is_shown_and_not_before(shown: World) -> None:
    """The browser began after the job had ended, and has what it made; it changes nothing."""
    (job,) = cluster(shown).list(Job, namespace="lab-a")
    begun = pod_of(shown, "browser", "dataset").metadata.creationTimestamp
    assert begun >= job.status.completionTime
    files = site(shown, "dataset")
    assert files.ask(f"{path('dataset')}/row").body == b"filled"
    assert [one["name"] for one in json.loads(files.ask(f"{path('dataset')}/?json").body)["paths"]] == ["row"]
    assert files.ask(f"{path('dataset')}/new", "PUT", body=b"x").status == 403


def test_a_unit_and_its_browser_share_a_volume(shown: World) -> None:
    """What either writes the other has at once, owned by the storage's uid, on one node."""
    shown.ssh("trainer.lab-a", "echo by the unit > ~/one")
    files = site(shown, "home")
    assert files.ask(f"{path('home')}/one").body == b"by the unit\n"
    assert files.ask(f"{path('home')}/two", "PUT", body=b"by a browser").status == 201
    assert shown.ssh("trainer.lab-a", "cat ~/two; stat -c ' %u' ~/two; rm ~/two") == "by a browser 1000"
    nodes = {pod_of(shown, "browser", "home").spec.nodeName, pod_of(shown, "unit", "trainer").spec.nodeName}
    assert len(nodes) == 1


def test_nobody_comes_in_but_by_the_proxy(shown: World) -> None:
    """Neither the tenant's own unit, nor another tenant's, nor another browser: by pod and by Service."""
    browser = pod_of(shown, "browser", "dataset")
    service = cluster(shown).get(Service, names.browser("dataset"), namespace="lab-a")
    doors: list[Try] = [(str(ip), names.BROWSER_PORT, "TCP") for ip in (browser.status.podIP, service.spec.clusterIP)]
    for stranger in (
        pod_of(shown, "unit", "trainer"),
        pod_of(shown, "unit", "stranger", "lab-b"),
        pod_of(shown, "browser", "inbox"),
    ):
        assert finish(start(space_of(pid_of(str(stranger.metadata.uid))), doors)) == [False, False]
    own: list[Try] = [("127.0.0.1", names.BROWSER_PORT, "TCP")]
    assert finish(start(space_of(pid_of(str(browser.metadata.uid))), own)) == [True]


def test_a_browser_reaches_nobody(shown: World) -> None:
    """Not the unit whose volume it shows, not the API server, not cluster DNS."""
    unit, api = pod_of(shown, "unit", "trainer"), cluster(shown).get(Service, "kubernetes", namespace="default")
    dns = cluster(shown).get(Service, "kube-dns", namespace="kube-system")
    tries: list[Try] = [(str(unit.status.podIP), names.SSHD_PORT, "TCP"), (str(api.spec.clusterIP), 443, "TCP")]
    tries += [(str(shown.rig.node_ip), 6443, "TCP"), (str(dns.spec.clusterIP), 53, "UDP")]
    space = space_of(pid_of(str(pod_of(shown, "browser", "home").metadata.uid)))
    assert finish(start(space, tries)) == [False] * len(tries)


def test_a_browser_that_ends_is_told_in_its_own_words(shown: World) -> None:
    """The runtime sends SIGINT, by which dufs ends with 0; the next pod serves the same files."""
    old = str(pod_of(shown, "browser", "inbox").metadata.name)
    assert site(shown, "inbox").ask(f"{path('inbox')}/kept", "PUT", body=b"kept").status == 201
    ended = []
    watched = cluster(shown).watch(Pod, namespace="lab-a", fields={"metadata.name": old}, server_timeout=60)
    cluster(shown).delete(Pod, old, namespace="lab-a")
    for event, pod in watched:
        ended += [one.state.terminated.exitCode for one in pod.status.containerStatuses or [] if one.state.terminated]
        if event == "DELETED":
            break
    assert set(ended) == {0}
    wait_until(lambda: ready(shown, "inbox"), "the next browser to serve")
    assert site(shown, "inbox").ask(f"{path('inbox')}/kept").body == b"kept"


def test_nothing_failed_on_the_way(shown: World) -> None:
    """No probe of a browser was ever told of anything but health once it ran, and no pod was refused."""
    events = [event for event in cluster(shown).list(Event, namespace="lab-a") if event.type == "Warning"]
    told = [f"{event.reason} {event.message}" for event in events if "browser-" in str(event.involvedObject.name)]
    assert [one for one in told if not any(word in one for word in HARMLESS)] == []


HARMLESS = ("FailedScheduling", "connection refused", "FailedToUpdateEndpoint", "FailedMount")
"""What Kubernetes says of a pod that is not there yet."""


def test_each_state_of_a_browser_is_told(shown: World) -> None:
    """Failed in the kubelet's word where its image is not to be had, Pending on the way back, Ready while it serves."""
    before = cluster(shown).get(Deployment, names.browser("inbox"), namespace="lab-a")
    image = before.spec.template.spec.containers[0].image
    assert told(shown) == ("Ready", "BrowserReady", "StorageReady")
    run(shown, f"localhost/not-there@sha256:{'0' * 64}")
    broken = [("Failed", reason, "StorageBrowserFailed") for reason in ("ErrImagePull", "ImagePullBackOff")]
    wait_until(lambda: told(shown) in broken, "the browser to fail")
    run(shown, image)
    _, seen = during(shown, lambda: wait_until(lambda: ready(shown, "inbox"), "the browser to serve again"))

    assert "StorageBrowserPending" in {one.overall.reason for one in seen["inbox"]}
    wait_until(lambda: told(shown) == ("Ready", "BrowserReady", "StorageReady"), "the storage to be ready")


def told(world: World) -> tuple[str, str, str]:
    """Give phase and reason of the browser of `inbox`, and the reason of the storage."""
    found = states(world)["inbox"]
    return found.browser.phase.value, found.browser.reason, found.overall.reason


def run(world: World, image: str) -> None:
    """Have the browser of `inbox` run *image*."""
    changed = {"spec": {"template": {"spec": {"containers": [{"name": "browser", "image": image}]}}}}
    cluster(world).patch(Deployment, names.browser("inbox"), changed, namespace="lab-a")
