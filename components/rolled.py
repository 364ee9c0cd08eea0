"""A tunnel server has rolled when the cluster says so, which is later than the Pulumi provider believes.

Provider 4.25 takes a Deployment for rolled by its revision, which with `Recreate` is the old one until the old pod has
gone: it would let the next server roll at once, and for a while no server had a unit. This hook holds the engine.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pulumi
from lightkube import ApiError, Client
from lightkube.resources.apps_v1 import Deployment

from components import cluster
from components.model import Manifest

LOOK_SECONDS = 0.5

SLOWEST_LOOK_SECONDS = 5.0
"""Where it takes long: a server drains for as long as its sessions may."""


def lacks(deployment: Manifest) -> str | None:
    """Say what a Deployment still lacks to run what its spec says, or None."""
    wanted, status = deployment["spec"].get("replicas", 1), deployment.get("status") or {}
    if status.get("observedGeneration", 0) < deployment["metadata"]["generation"]:
        return "the cluster has not looked at it yet"
    for what in ("replicas", "updatedReplicas", "availableReplicas"):
        if status.get(what, 0) != wanted:
            return f"{what} is {status.get(what, 0)} and not {wanted}"
    return None


@dataclass
class Patience:
    """Waits for Deployments, looked at beside the program's event loop."""

    connect: Callable[[], Client]
    seconds: float
    client: Client | None = None
    clock: Callable[[], float] = field(default=time.monotonic)

    async def wait(self, args: pulumi.ResourceHookArgs) -> None:
        """Wait until the Deployment that was changed has rolled.

        Raises RuntimeError, which fails the update and with it what comes after, when it has not in time.
        """
        meta = (args.new_inputs or {})["metadata"]
        end, pause = self.clock() + self.seconds, LOOK_SECONDS
        while lacking := await asyncio.to_thread(self._look, meta["namespace"], meta["name"]):
            if self.clock() >= end:
                raise RuntimeError(f"{meta['name']} has not rolled after {self.seconds:.0f} s: {lacking}")
            pause = min(pause * 1.1, SLOWEST_LOOK_SECONDS)
            await asyncio.sleep(pause)

    def _look(self, namespace: str, name: str) -> str | None:
        try:
            with cluster.ONE_AT_A_TIME, cluster.answered():
                self.client = self.client or self.connect()
                return lacks(self.client.get(Deployment, name, namespace=namespace).to_dict())
        except (cluster.UnreachableError, ApiError) as error:
            return str(error)


def rolled_hook(kubeconfig: str, context: str, seconds: float) -> pulumi.ResourceHook:
    """Give the hook for ``after_update`` of the tunnel servers' Deployments; a server has *seconds* to roll."""
    patience = Patience(partial(cluster.connect, kubeconfig, context), seconds)
    return pulumi.ResourceHook("wait-for-roll", patience.wait)
