"""The world of the end-to-end tests: a rig, a stack on it, and what a user and an operator do there."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2
import yaml
from lightkube import ApiError, Client, KubeConfig
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Namespace, Pod

from components import names
from tools.rig import Rig
from tools.stack import local
from tools.stack.client import ssh, wait_for_login
from tools.stack.engine import PACK, REPOSITORY, Engine
from tools.stack.workspace import Workspace
from tools.stack.workspace import replace as replace_file

PATIENCE_SECONDS = 240.0
"""For what takes seconds on an idle machine: above what the product itself waits for, two minutes at the longest."""

BOTH = 10
"""Times in a row that one asks to have met both gates, proxies or servers: each hears of a change by itself."""

Config = dict[str, Any]


@dataclass(frozen=True)
class World:
    """A stack on a rig of the tests' own."""

    workspace: Workspace
    rig: Rig

    @cached_property
    def cluster(self) -> Client:
        """Connect as the administrator."""
        config = KubeConfig.from_file(str(self.rig.kubeconfig)).get(f"rig-{self.rig.name}")
        return Client(config=config, timeout=httpx2.Timeout(30))

    def close(self) -> None:
        """End the connection to the cluster, if there ever was one; lightkube's client has no word for it."""
        if "cluster" in vars(self):
            self.cluster._client._client.close()

    def up(self) -> list[str]:
        """Do what `make up` does; give the aliases of the units that a login reaches."""
        return local.up(self.workspace, self.rig).aliases

    def engine(self, folder: Path = REPOSITORY, **environment: str) -> Engine:
        """Give the CLI, as an operator without make would run it."""
        engine = self.workspace.engine()
        environment = {"TMPDIR": str(self.workspace.folder), **environment}  # the provider leaves kubeconfigs there
        return replace(engine, folder=folder, environment={**engine.environment, **environment})

    def ssh(self, alias: str, command: str) -> str:
        """Run *command* in a unit; give what it prints, without the last newline."""
        done = ssh(self.workspace, alias, command)
        assert done.returncode == 0, f"ssh {alias} {command!r} ended with {done.returncode}: {done.stderr}"
        return done.stdout.removesuffix("\n")

    def comes_in(self, alias: str, times: int = 1) -> bool:
        """Log in so often with the host key that is pinned, and no other; say whether it always worked."""
        return all(ssh(self.workspace, alias, "true").returncode == 0 for _ in range(times))

    def namespaces(self) -> set[str]:
        """Name the namespaces that are there."""
        return {namespace.metadata.name or "" for namespace in self.cluster.list(Namespace) if namespace.metadata}

    def pod(self, unit: str) -> str:
        """Name the pod of a unit of lab-a."""
        labels: dict[str, Any] = {"app.kubernetes.io/component": "unit", "app.kubernetes.io/instance": unit}
        (pod,) = self.cluster.list(Pod, namespace="lab-a", labels=labels)
        return str(pod.metadata.name) if pod.metadata else ""

    def restart(self, unit: str) -> None:
        """Delete the unit's pod and wait until logins to the next one work, by each server."""
        old = self.pod(unit)
        self.cluster.delete(Pod, old, namespace="lab-a")
        wait_until(lambda: gone(self.cluster, old), f"pod {old} to go")
        wait_for_login(self.workspace, f"{unit}.lab-a")
        wait_until(lambda: self.comes_in(f"{unit}.lab-a", BOTH), f"{unit} to be announced by each server")

    @contextmanager
    def changed(self, change: Callable[[Config], object]) -> Iterator[None]:
        """Change the generated stack file for a while, as an operator would edit it."""
        text = self.workspace.config_file.read_text()
        self.edit(change)
        try:
            yield
        finally:
            replace_file(self.workspace.config_file, text)

    def edit(self, change: Callable[[Config], object]) -> None:
        """Change the generated stack file as an operator does."""
        said = yaml.safe_load(self.workspace.config_file.read_text())
        change(said["config"])
        replace_file(self.workspace.config_file, yaml.safe_dump(said))


def attempt(engine: Engine, *arguments: str) -> tuple[int, str]:
    """Run the CLI; give its exit status and all that it said."""
    done = subprocess.run(
        engine._argv(arguments), cwd=engine.folder, env=engine.env(), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


WITH_PACK = ("--policy-pack", str(PACK))


def gone(cluster: Client, pod: str) -> bool:
    """Say whether a pod of lab-a is no more."""
    try:
        cluster.get(Pod, pod, namespace="lab-a")
    except ApiError as error:
        return error.status.code == 404
    return False


def is_ready(pod: Pod) -> bool:
    """Say whether the kubelet finds all of *pod* ready."""
    conditions = (pod.status.conditions if pod.status else None) or []
    return any(one.type == "Ready" and one.status == "True" for one in conditions)


def rolled_out(world: World, deployment: str, namespace: str = names.PLATFORM_NAMESPACE) -> bool:
    """Say whether a Deployment has the pods that it shall have, each ready, and none that ends.

    The pods themselves are asked: what a Deployment counts is of a moment ago, when those that are gone were there.
    """
    found: Any = world.cluster.get(Deployment, deployment, namespace=namespace)
    pods = list(world.cluster.list(Pod, namespace=namespace, labels=found.spec.selector.matchLabels))
    seen = found.status.observedGeneration == found.metadata.generation
    new = found.status.updatedReplicas == found.spec.replicas
    return seen and new and len(pods) == found.spec.replicas and all(map(is_ready, pods))


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Poll until *true* holds; fail with *what* was waited for."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < end, f"waited {PATIENCE_SECONDS} s for {what}"
        time.sleep(0.2)
