"""Kubernetes' own scheduler, and nodes in its books alone: where a storage's pods go, and what they wait for."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from components.gpu_storage import storage_manifests
from components.gpu_unit import unit_manifests
from components.model import Manifest
from stacks.load import parse
from stacks.resolve import BLANK, Stack
from tests.rig.cluster import PATIENCE, Cluster
from tests.stack_files import ENCRYPTED, FILES, raw

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
NODES = {"gpu-1": "gpus", "gpu-2": "gpus", "cpu-1": "cpus"}
ROOM = {"cpu": "8", "memory": "16Gi", "pods": "50", "ephemeral-storage": "100Gi"}
PREPARE = {"kind": "image", "image": "python", "command": ["true"], "memory": "64Mi"}
STORAGE = {"size": "64Mi", "class": "by-hand", "prepare": PREPARE, "browser": True}
FLAVOR = {
    "cpu": "50m",
    "memory": "64Mi",
    "nodeSelector": {"pool": "gpus"},
    "tolerations": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
}


def node(name: str, pool: str) -> Manifest:
    """Give a node that nobody runs; its controller believes in it for most of a minute."""
    gpus = {"nvidia.com/gpu": "1"} if pool == "gpus" else {}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "so it says"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": pool, "kubernetes.io/hostname": name}},
        "spec": {"taints": [GPU_TAINT] if gpus else []},
        "status": {"capacity": ROOM | gpus, "allocatable": ROOM | gpus, "conditions": [ready]},
    }


def volume(name: str) -> Manifest:
    """Give a volume that every node could mount."""
    spec = {"capacity": {"storage": "64Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand"}
    source = {"hostPath": {"path": "/nowhere"}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {**spec, **source}}


def stack(*, running: bool = True) -> Stack:
    """Give a stack with a unit that has a GPU, the storage that it mounts, and one that is told where to be."""
    said = raw(next(file for file in FILES if file.stem == "Pulumi.local"))
    unit = {"flavor": "gpu", "image": "python", "running": running, "mounts": [{"storage": "data", "path": "/data"}]}
    elsewhere = {**STORAGE, "placement": {"nodeSelector": {"pool": "cpus"}}}
    placed = {"storages": {"data": STORAGE, "elsewhere": elsewhere}, "units": {"trainer": unit}}
    said["images"] |= dict.fromkeys(("dufs", "proxy", "routes"), said["images"]["python"])
    said["platform"]["browser"] = {"host": "files.gpu-runtime.test"}
    return Stack(parse({**said, "flavors": {"gpu": FLAVOR}, "tenants": {"placed": placed}}, ENCRYPTED), "local")


def browser(made: Stack, storage: str) -> Manifest:
    """Give the Deployment that shows a storage."""
    return storage_manifests(made.storages[f"{storage}.placed"])["browser"]


@pytest.fixture
def placed(cluster: Cluster) -> Iterator[Cluster]:
    """Give a cluster of several nodes, with the storages' volumes there, and no pod yet."""
    cluster.namespace("placed")
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant", "namespace": "placed"}})
    cluster.apply(*(volume(f"by-hand-{number}") for number in range(2)))
    cluster.apply(*(storage_manifests(storage)["claim"] for storage in stack().storages.values()))
    cluster.kubectl("create", "--filename=-", stdin="\n---\n".join(json.dumps(node(*one)) for one in NODES.items()))
    until(lambda: "not-ready" not in cluster.kubectl("get", "nodes", "--output=jsonpath={..taints}"), "nodes")
    yield cluster
    cluster.kubectl("delete", "node", *NODES)
    end_pods(cluster)
    cluster.remove("placed")
    cluster.kubectl("delete", "persistentvolume", "by-hand-0", "by-hand-1")


def end_pods(cluster: Cluster) -> None:
    """End all pods: their nodes have no kubelet. A pod of a Job that is still there would wait for one."""
    cluster.kubectl("delete", "jobs", "--namespace=placed", "--all")
    cluster.kubectl("delete", "pods", "--namespace=placed", "--all", "--force", "--grace-period=0")


def until(true: Callable[[], bool], what: str) -> None:
    """Poll until *true* holds."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"waited {PATIENCE} s for {what}"
        time.sleep(0.2)


def pods(cluster: Cluster, component: str, storage: str) -> list[Any]:
    """Give the pods of one part of a storage or unit that are to stay."""
    labels = f"app.kubernetes.io/component={component},app.kubernetes.io/instance={storage}"
    found = cluster.kubectl("get", "pods", "--namespace=placed", f"--selector={labels}", "--output=json")
    return [pod for pod in json.loads(found)["items"] if "deletionTimestamp" not in pod["metadata"]]


def home(cluster: Cluster, component: str, name: str) -> str:
    """Wait until the scheduler has found a node for a pod; name it."""
    believe(cluster)
    until(lambda: any("nodeName" in pod["spec"] for pod in pods(cluster, component, name)), f"{component} {name}")
    (pod,) = pods(cluster, component, name)
    return str(pod["spec"]["nodeName"])


def believe(cluster: Cluster) -> None:
    """Have the nodes' controller believe in them for another while: nobody runs them."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = {"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": now}]}}
    cluster.kubectl("patch", "node", *NODES, "--subresource=status", f"--patch={json.dumps(said)}")


def waits(cluster: Cluster, component: str, name: str, why: str) -> bool:
    """Say whether a pod waits for a node because of *why*."""
    listed = pods(cluster, component, name)
    told = [one for pod in listed for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"]
    return any(one["status"] == "False" and why in one["message"] for one in told)


def test_a_storages_pods_go_where_its_unit_goes(placed: Cluster) -> None:
    """What fills a volume goes to a GPU node, without a GPU; what shows it waits for the unit, then joins it.

    What is said of a storage counts before that; a unit at rest binds nobody.
    """
    made, resting = stack(), stack(running=False)
    fill = {name: storage_manifests(made.storages[f"{name}.placed"])["prepare"] for name in ("data", "elsewhere")}
    placed.apply(*fill.values(), browser(made, "data"), browser(made, "elsewhere"))

    assert NODES[home(placed, "prepare", "data")] == "gpus"
    assert home(placed, "prepare", "elsewhere") == home(placed, "browser", "elsewhere") == "cpu-1"
    assert "nvidia.com/gpu" not in json.dumps(fill["data"]["spec"]["template"]["spec"]["containers"])
    until(lambda: waits(placed, "browser", "data", "didn't match pod affinity rules"), "the browser to wait")

    placed.apply(unit_manifests(made.units["trainer.placed"], BLANK)["deployment"])
    assert NODES[home(placed, "unit", "trainer")] == "gpus"
    assert home(placed, "browser", "data") == home(placed, "unit", "trainer")

    placed.apply(unit_manifests(resting.units["trainer.placed"], BLANK)["deployment"], browser(resting, "data"))
    end_pods(placed)
    until(lambda: not pods(placed, "unit", "trainer"), "the unit to rest")
    assert NODES[home(placed, "browser", "data")] == "gpus"
