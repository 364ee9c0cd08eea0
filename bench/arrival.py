"""What a unit's way from its object to a login is made of, and what a pod of system A's shape takes beside it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lightkube import Client
from lightkube.resources.core_v1 import Pod

from components import cluster, names
from components.bundle import NO_GPU
from policy.baseline import POD_DEFAULTS, container_security, pod_security

SHAPE_OF_A = ("program", "ssh")
"""System A's pod: two containers that start together."""


@dataclass
class Moments:
    """When the containers of one unit's pod were first seen to run or to have ended, in seconds from its object."""

    client: Client
    namespace: str
    labels: Mapping[str, str]
    began: float = field(default_factory=time.monotonic)
    seen: dict[str, float] = field(default_factory=dict)

    def look(self, what: str = "", holds: bool = False) -> bool:  # noqa: FBT001, FBT002 - a fact, not a switch
        """Note what is new, *what* too where it *holds*, and give that back."""
        with cluster.ONE_AT_A_TIME:
            pods = list(self.client.list(Pod, namespace=self.namespace, labels=dict(self.labels)))
        for pod in pods:
            self._note("placed", bool(pod.spec and pod.spec.nodeName))
            status = pod.status
            for one in (status.initContainerStatuses or []) if status else []:
                self._note(one.name, bool(one.state and one.state.terminated))
            for one in (status.containerStatuses or []) if status else []:
                self._note(one.name, bool(one.state and one.state.running))
        self._note(what, holds)
        return holds

    def _note(self, what: str, holds: bool) -> None:  # noqa: FBT001 - a fact, not a switch
        if holds and what not in self.seen:
            self.seen[what] = time.monotonic() - self.began

    @property
    def words(self) -> str:
        """Tell them in their order."""
        return ", ".join(f"{what} {seconds:.1f}" for what, seconds in sorted(self.seen.items(), key=lambda one: one[1]))


def pod_of_two(name: str, owner: str, tenant: str, image: str) -> Any:
    """Build a pod of system A's shape, in our law and from an image that is on the node."""
    labels = names.labels(owner=owner, component="unit", instance=name, tenant=tenant)
    container = {
        "image": image,
        "command": ["/bundle/bin/busybox", "sleep", "600"],
        "env": [NO_GPU],
        "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"cpu": "100m", "memory": "24Mi"}},
        "securityContext": container_security(),
    }
    spec = {
        **POD_DEFAULTS,
        "serviceAccountName": names.TENANT_SERVICE_ACCOUNT,
        "terminationGracePeriodSeconds": 1,
        "securityContext": pod_security(1000, 1000),
        "containers": [{"name": one, **container} for one in SHAPE_OF_A],
    }
    meta = {"name": name, "namespace": tenant, "labels": labels}
    return Pod.from_dict({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def until_both_run(client: Client, pod: Any, wait: Callable[[Callable[[], bool], str], None]) -> float:
    """Make *pod* and give the seconds until its containers are seen to run; *wait* looks until a thing holds."""
    meta = pod.metadata
    moments = Moments(client, meta.namespace, names.selector("unit", meta.name))
    client.create(pod)

    def both() -> bool:
        moments.look()
        return set(SHAPE_OF_A) <= set(moments.seen)

    try:
        wait(both, "the pod of system A's shape")
    finally:
        client.delete(Pod, meta.name, namespace=meta.namespace)
    return max(moments.seen[one] for one in SHAPE_OF_A)
