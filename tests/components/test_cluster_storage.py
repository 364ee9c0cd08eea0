"""What the program reads of a cluster's claims and classes."""

from typing import Any

import httpx2
import pytest

from components.cluster import Claim, UnreachableError
from components.cluster_storage import LiveClaim, Volumes, volumes
from tests.components.test_cluster import client

OWNER = {"gpu-runtime/owner": "prod", "gpu-runtime/tenant": "lab-a", "app.kubernetes.io/instance": "home"}
HOME: Any = {
    "metadata": {
        "name": "storage-home",
        "namespace": "lab-a",
        "labels": OWNER,
        "annotations": {"gpu-runtime/protect": "true"},
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {
        "storageClassName": "slow",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "50Gi"}},
    },
    "status": {"phase": "Bound", "capacity": {"storage": "40Gi"}},
}
UNBOUND: Any = {**HOME, "status": {"phase": "Pending"}}


def storage_class(name: str, created: str = "2026-01-01T00:00:00Z", **said: Any) -> Any:
    """Give a class; one that says *default* is marked so."""
    marks = {"storageclass.kubernetes.io/is-default-class": "true"} if said.pop("default", False) else {}
    meta = {"name": name, "annotations": marks, "creationTimestamp": created}
    return {"metadata": meta, "provisioner": "example.com/disk", **said}


def looked(named: set[str], *, claims: Any = (), classes: Any = (), made: Any = (), forbidden: str = "none") -> Volumes:
    """Look at a cluster that has these, of which one kind may be *forbidden*; give what is seen."""
    there = {"persistentvolumeclaims": claims, "storageclasses": classes, "persistentvolumes": made}

    def answer(request: httpx2.Request) -> httpx2.Response:
        kind = request.url.path.rpartition("/")[2]
        if kind == forbidden:
            return httpx2.Response(403, json={"message": "no", "code": 403})
        if kind == "persistentvolumeclaims":
            assert request.url.params["labelSelector"] == "gpu-runtime/owner=prod"
        return httpx2.Response(200, json={"items": list(there[kind]), "metadata": {}})

    return volumes(client(answer), "prod", named)


def test_a_claim_is_read() -> None:
    """Size, capacity, class, mode and what protects or removes it are what the checks go by."""
    at = Claim("lab-a", "storage-home")
    read = LiveClaim(at, "lab-a", "home", "50Gi", "40Gi", "slow", ("ReadWriteOnce",), going=True, protected=True)

    assert looked(set(), claims=[HOME]).claims == {at: read}
    assert looked(set(), claims=[UNBOUND]).claims[at].capacity is None


def test_classes_are_read() -> None:
    """What a class can do is said in words that a stack file's author understands."""
    found = looked(set(), classes=[storage_class("a", allowVolumeExpansion=True), storage_class("b")])

    assert found.classes is not None
    assert found.classes["a"].text.endswith("a volume is made at once (Immediate) and can grow")
    assert found.classes["b"].text.endswith("cannot grow (no allowVolumeExpansion)")
    late = storage_class("c", default=True, volumeBindingMode="WaitForFirstConsumer")
    (only,) = (looked(set(), classes=[late]).classes or {}).values()
    assert only.text.startswith("c, the cluster's default, by example.com/disk: a volume is made when its first pod")


def test_the_newest_default_counts() -> None:
    """Where several classes are marked, Kubernetes takes the one that was made last."""
    old, new = storage_class("z", default=True), storage_class("a", "2026-02-01T00:00:00Z", default=True)
    default = looked(set(), classes=[old, new, storage_class("n", "2027-01-01T00:00:00Z")]).default

    assert default is not None
    assert default.name == "a"
    assert looked(set(), classes=[storage_class("n")]).default is None


def test_what_may_not_be_listed_is_unknown() -> None:
    """No list is not an empty list; volumes are asked for only where a class is missing."""
    made = [{"metadata": {"name": "v"}, "spec": {"storageClassName": "manual"}}]

    assert looked({"fast"}, forbidden="storageclasses").classes is None
    assert looked({"manual"}, made=made).by_hand == frozenset({"manual"})
    assert looked({"manual"}, forbidden="persistentvolumes").by_hand is None
    assert looked({"a"}, classes=[storage_class("a")], forbidden="persistentvolumes").by_hand == frozenset()


def test_a_cluster_that_does_not_answer_is_no_empty_one() -> None:
    """An error is not taken for a cluster without claims."""

    def broken(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(500, json={"message": "etcd is away", "code": 500})

    with pytest.raises(UnreachableError):
        volumes(client(broken), "prod", set())
