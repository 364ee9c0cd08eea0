"""Storages on a real node: what may become of a claim, in which state it is, and what stays.

The tests run in this order on one stack.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lightkube.codecs import from_dict
from lightkube.resources.core_v1 import Node, PersistentVolume, PersistentVolumeClaim
from lightkube.resources.storage_v1 import StorageClass
from lightkube.types import PatchType

from e2e.conftest import describe, on_a_fresh_rig, told_on_failure
from e2e.phases import during, states
from e2e.world import Config, World, attempt, gone, wait_until
from tools.shell import ToolError
from tools.stack import local

pytestmark = pytest.mark.e2e

CLAIM = "storage-grows"
GROWS = "gpu-runtime:tenants.lab-a.storages.grows"
LARGER = {"size": "128Mi"}
NO_IMAGE = f"localhost/not-there@sha256:{'0' * 64}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give the stack of storages, up by a bare `pulumi up`."""
    with on_a_fresh_rig(tmp_path_factory.mktemp("storage"), "storage") as made:
        local.make_ready(made.workspace, made.rig)
        status, said = attempt(made.engine(), "up", "--yes")
        assert status == 0, f"{said}\n{describe(made)}"
        yield made


tell_on_failure = told_on_failure("world")


def storages(config: Config) -> Config:
    """Give the storages of lab-a in a stack file."""
    found: Config = config["gpu-runtime:tenants"]["lab-a"]["storages"]
    return found


def says(world: World, change: Callable[[Config], object]) -> str:
    """Give what a preview says of the stack file after *change*, which it must refuse."""
    with world.changed(change):
        status, said = attempt(world.engine(), "preview")
    assert status != 0, said
    return said


def words(world: World) -> str:
    """Give what the unit's program said so far; `up` does not wait for its words (`startSeconds: 0`)."""
    return "".join(world.cluster.log(world.pod("holder"), namespace="lab-a", container="unit"))


def claim(world: World) -> Any:
    """Give the claim that grows."""
    return world.cluster.get(PersistentVolumeClaim, CLAIM, namespace="lab-a")


def mark(world: World, **said: Any) -> None:
    """Change the rig's storage class."""
    world.cluster.patch(StorageClass, "local", said, patch_type=PatchType.MERGE)


def test_a_filled_volume_is_its_units(world: World) -> None:
    """What the prepare job wrote is there when the program starts, which may write it: one owner."""
    wait_until(lambda: "filled and used" in words(world), "the unit's program to say what it read")
    found = states(world)

    assert (found["data"].overall.reason, found["data"].prepare.phase.value) == ("StorageReady", "Succeeded")
    assert (found["grows"].overall.reason, found["grows"].prepare.phase.value) == ("StorageReady", "NotRequested")
    assert found["data"].browser.phase.value == "Disabled"


def test_a_volume_that_waits_for_its_first_pod_is_told(world: World) -> None:
    """With WaitForFirstConsumer a storage that nobody mounts has no volume, and says so."""
    found = states(world)["idle"]

    assert (found.overall.phase.value, found.overall.reason) == ("Pending", "StoragePending")
    assert found.claim.reason == "WaitForFirstConsumer"


def test_the_preview_tells_the_class(world: World) -> None:
    """Who reads a preview knows which class the storages have, and what it can do, before anything is made."""
    status, said = attempt(world.engine(), "preview")

    assert status == 0, said
    assert "storage class local, the cluster's default, by rancher.io/local-path" in said
    assert "(WaitForFirstConsumer) and cannot grow" in said
    assert "for data.lab-a, grows.lab-a, idle.lab-a" in said


def test_what_a_claim_cannot_become_is_refused(world: World) -> None:
    """The real claims speak against the stack file, at preview: all at once, and each with what it has."""
    other = {"size": "32Mi", "class": "fast", "accessMode": "ReadWriteMany"}
    said = says(
        world, lambda config: (storages(config)["grows"].update(other), storages(config)["data"].update(LARGER))
    )

    assert f"{GROWS}.size: 32Mi is less than the 64Mi that its claim has; volumes only grow: say 64Mi or more" in said
    assert f"{GROWS}.class: 'fast': its claim has class 'local', which never changes" in said
    assert f"{GROWS}.accessMode: ReadWriteMany: its claim has ReadWriteOnce, which never changes" in said
    assert "storages.data.size: 128Mi: its claim has 64Mi and cannot grow, since its class local does not say" in said


def test_without_a_look_at_the_cluster_nothing_is_replaced(world: World) -> None:
    """Even a run that asks nobody leaves class, mode and data alone: the engine keeps what the claim has."""
    before = claim(world).metadata.uid
    with world.changed(lambda config: storages(config)["grows"].update({"class": "fast"})):
        status, said = attempt(world.engine(GPU_RUNTIME_OFFLINE="1"), "up", "--yes")

    assert status == 0, said
    assert claim(world).metadata.uid == before
    assert claim(world).spec.storageClassName == "local"


def test_a_cluster_without_a_default_class_is_told(world: World) -> None:
    """A new storage that names no class is refused where nothing would ever make its volume."""
    key = "storageclass.kubernetes.io/is-default-class"
    mark(world, metadata={"annotations": {key: "false"}})
    try:
        said = says(world, lambda config: storages(config).update(new={"size": "1Mi"}))
    finally:
        mark(world, metadata={"annotations": {key: "true"}})

    assert "storages.new.class: is missing, and the cluster has no default storage class" in said
    assert "it has local" in said
    assert "storages.grows" not in said


def test_growth_reaches_the_claim(world: World) -> None:
    """A class that can grow gets the larger claim, and no pod is replaced; a growth that never came is taken back.

    The rig's driver enlarges nothing: what is seen here is that Kubernetes took the request.
    """
    pod = world.pod("holder")
    mark(world, allowVolumeExpansion=True)
    world.edit(lambda config: storages(config)["grows"].update(size="128Mi"))
    status, said = attempt(world.engine(), "up", "--yes")

    assert status == 0, said
    assert claim(world).spec.resources.requests["storage"] == "128Mi"
    assert claim(world).status.capacity["storage"] == "64Mi"
    assert world.pod("holder") == pod

    assert "it has 64Mi still" in says(world, lambda config: storages(config)["grows"].update(size="64Mi"))
    world.edit(lambda config: storages(config)["grows"].update(size="96Mi"))
    status, said = attempt(world.engine(), "up", "--yes")

    assert status == 0, said
    assert claim(world).spec.resources.requests["storage"] == "96Mi"
    mark(world, allowVolumeExpansion=False)


def test_a_volume_of_an_immediate_class_is_filled(world: World, tmp_path: Path) -> None:
    """A class that binds at once, here by hand, works like one that waits."""
    world.cluster.create(from_dict(class_of("instant")))
    world.cluster.create(from_dict(volume("by-hand", local={"path": str(shared(tmp_path))}, **on_node(node(world)))))
    world.edit(with_keeper)
    status, said = attempt(world.engine(), "up", "--yes")
    assert status == 0, said
    assert "storage class instant by kubernetes.io/no-provisioner: a volume is made at once (Immediate)" in said
    found = states(world)["now"]

    assert (found.claim.phase.value, found.prepare.phase.value) == ("Bound", "Succeeded")
    assert (shared(tmp_path) / "data").read_text() == "filled"


def test_a_volume_that_is_gone_is_told(world: World) -> None:
    """A claim whose volume somebody removed is lost; deleted, it ends with the pod that has it, and both are told."""
    world.cluster.delete(PersistentVolume, "by-hand")
    unprotected = {"metadata": {"finalizers": None}}
    world.cluster.patch(PersistentVolume, "by-hand", unprotected, patch_type=PatchType.MERGE)
    wait_until(lambda: states(world)["now"].claim.phase.value == "Lost", "the claim to be lost")
    told = states(world)["now"].overall
    assert (told.phase.value, told.reason) == ("Failed", "StorageLost")

    world.cluster.delete(PersistentVolumeClaim, "storage-now", namespace="lab-a")
    found = states(world)["now"]
    assert (found.claim.phase.value, found.overall.phase.value) == ("Terminating", "Pending")
    assert "it goes when no pod mounts it any more" in found.overall.message
    world.edit(without_keeper)
    assert attempt(world.engine(), "up", "--yes")[0] == 0
    wait_until(lambda: "now" not in states(world), "the claim to go")


def with_keeper(config: Config) -> None:
    """Add a storage of class `instant`, and a unit that has it."""
    storages(config)["now"] = {**storages(config)["data"], "class": "instant", "deleteWithStack": True}
    keeper = {"flavor": "small", "image": "python", "mounts": [{"storage": "now", "path": "/now"}]}
    config["gpu-runtime:tenants"]["lab-a"]["units"]["keeper"] = keeper


def without_keeper(config: Config) -> None:
    """Take them away again."""
    storages(config).pop("now")
    config["gpu-runtime:tenants"]["lab-a"]["units"].pop("keeper")


def node(world: World) -> str:
    """Name the node."""
    (found,) = (one.metadata.name for one in world.cluster.list(Node) if one.metadata)
    return str(found)


def shared(tmp_path: Path) -> Path:
    """Give a folder that any uid may write, below one that it may enter."""
    folder = tmp_path / "volume"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    return folder


def class_of(name: str) -> Config:
    """Give a class that binds at once what somebody made."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "Immediate",
    }


def volume(name: str, **source: Any) -> Config:
    """Give a volume made by hand."""
    size = {"capacity": {"storage": "64Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "instant"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**size, "persistentVolumeReclaimPolicy": "Retain", **source},
    }


def on_node(name: str) -> Config:
    """Give what binds a volume to a node."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}}


PREPARE: Config = {"kind": "image", "image": "python", "cpu": "50m", "memory": "64Mi", "command": ["true"]}
TROUBLE: Config = {
    "bad": {"command": ["python3", "-c", "import sys, time; time.sleep(4); sys.exit('no such bucket')"]},
    "nowhere": {"cpu": "1000", "timeoutSeconds": 25},
    "imageless": {"image": NO_IMAGE, "timeoutSeconds": 25},
    "full": {"command": ["python3", "-c", "open('/workspace/much', 'wb').write(bytes(4 << 20))"]},
}
DISK = "size=2m,mode=0777"
"""What `full` has, whatever its claim says: room for half of what is written to it."""


def in_trouble(config: Config) -> None:
    """Add storages that cannot be filled."""
    for name, prepare in TROUBLE.items():
        storages(config)[name] = {"size": "1Mi", "deleteWithStack": True, "prepare": {**PREPARE, **prepare}}
    storages(config)["full"]["class"] = "instant"


@contextmanager
def on_a_full_disk(world: World, tmp_path: Path) -> Iterator[None]:
    """Give class `instant` a volume with a file system of its own, smaller than it says."""
    folder = shared(tmp_path)
    world.rig.exec("mount", "-t", "tmpfs", "-o", DISK, "tmpfs", str(folder))
    world.cluster.create(from_dict(volume("small", local={"path": str(folder)}, **on_node(node(world)))))
    try:
        yield
    finally:
        world.rig.exec("umount", str(folder))


def test_a_prepare_in_trouble_says_why(world: World, tmp_path: Path) -> None:
    """While it waits, while it runs and when it has failed: phases, reasons, last words; the rest of `up` goes on."""
    with on_a_full_disk(world, tmp_path), world.changed(in_trouble):
        (status, said), told = during(world, lambda: attempt(world.engine(), "up", "--yes", "--continue-on-error"))
        last = states(world)
    seen = {(name, one.prepare.phase.value, one.prepare.reason) for name in TROUBLE for one in told.get(name, ())}

    assert status != 0
    assert "no such bucket" in said
    assert "storage nowhere.lab-a: Pending, Unschedulable: 0/1 nodes are available" in said
    assert ("bad", "Running", "Preparing") in seen
    assert ("nowhere", "Pending", "Unschedulable") in seen
    assert seen & {("imageless", "Pending", reason) for reason in ("Failed", "ErrImagePull", "ImagePullBackOff")}
    assert {name: last[name].overall.reason for name in TROUBLE} == dict.fromkeys(TROUBLE, "StoragePrepareFailed")
    assert last["bad"].prepare.reason == "BackoffLimitExceeded"
    assert "no such bucket" in last["bad"].overall.message
    assert last["full"].prepare.reason == "BackoffLimitExceeded"
    assert "No space left on device" in last["full"].overall.message
    assert "No space left on device" in said
    assert last["nowhere"].prepare.reason == "DeadlineExceeded"
    # a pod that is placed has a deadline of its own: whether all its tries or the Job's time end first is a race
    assert last["imageless"].prepare.reason in ("DeadlineExceeded", "BackoffLimitExceeded")
    assert {last[name].prepare.recovery.value for name in TROUBLE} == {"Required"}
    assert last["data"].overall.reason == "StorageReady"


def test_what_left_the_file_is_gone_where_it_may(world: World) -> None:
    """The next `up`, without those storages, removes them with their claims: each says `deleteWithStack`."""
    status, said = attempt(world.engine(), "up", "--yes")

    assert status == 0, said
    wait_until(lambda: not set(TROUBLE) & states(world).keys(), "the claims to go")


def test_what_is_protected_stays(world: World) -> None:
    """Neither a stack file without it nor a destroy takes a protected storage, until it says so itself."""
    world.edit(lambda config: storages(config)["idle"].update(protect=True))
    assert attempt(world.engine(), "up", "--yes")[0] == 0

    said = says(world, lambda config: storages(config).pop("idle"))
    assert "tenants.lab-a.storages.idle: is no longer there, but its claim lab-a/storage-idle is protected" in said
    with pytest.raises(ToolError, match=r"protected: storage idle\.lab-a; say `protect: false`"):
        local.down(world.workspace, world.rig, keep_rig=False)
    status, said = attempt(world.engine(), "destroy", "--yes", "--continue-on-error")
    assert status != 0
    assert "protected" in said
    assert states(world)["idle"].claim.phase.value == "Pending"
    assert "lab-a" in world.namespaces()

    world.edit(lambda config: storages(config)["idle"].update(protect=False))
    assert attempt(world.engine(), "up", "--yes")[0] == 0


def test_the_next_life_finds_what_it_left(world: World) -> None:
    """After a destroy the retained claim still speaks: a smaller one is refused, the same is adopted."""
    pod = world.pod("holder")
    status, said = attempt(world.engine(), "destroy", "--yes")
    assert status == 0, said
    wait_until(lambda: gone(world.cluster, pod), "the unit to go")
    assert "lab-a" in world.namespaces()

    said = says(world, lambda config: storages(config)["data"].update(size="1Mi"))
    assert "1Mi is less than the 64Mi that its claim has" in said
    status, said = attempt(world.engine(), "up", "--yes")

    assert status == 0, said
    wait_until(lambda: "filled and used and used" in words(world), "the unit's program to say what it read")
