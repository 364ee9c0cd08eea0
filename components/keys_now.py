"""Tell a running unit's pod that its keys changed, so that they take effect within a second and not within ninety.

The kubelet looks at a mounted ConfigMap every 60 to 90 seconds, and at once when something of the pod changes: an
annotation is enough. It is the pod's own, not the template's, so that nothing is replaced. A resource hook of the
program writes it after the ConfigMap: with the deployer's rights, and in a bare ``pulumi up`` as well.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pulumi
from lightkube import ApiError, Client
from lightkube.models.meta_v1 import ObjectMeta

from components import cluster, names

ANNOTATION = f"{names.PROJECT}/keys"
"""On a running pod: the digest of the keys that it was told of."""

SLOW_PATH = "they take effect there when the kubelet looks by itself, within 60 to 90 seconds"


@dataclass(frozen=True)
class Change:
    """New keys of a unit."""

    alias: str
    namespace: str
    selector: names.Labels
    digest: str


def change_of(args: pulumi.ResourceHookArgs) -> Change | None:
    """Give what changed by the create or update of a unit's ConfigMap, or None where the files in it did not."""
    new: Mapping[str, Any] = args.new_inputs or {}
    if args.old_inputs and args.old_inputs.get("data") == new.get("data"):
        return None
    meta = new["metadata"]
    selector = names.selector("unit", meta["labels"]["app.kubernetes.io/instance"])
    return Change(args.name.removesuffix("-keys"), meta["namespace"], selector, digest(new.get("data") or {}))


def digest(files: Mapping[str, str]) -> str:
    """Give one short hash of all *files*: authorized keys, authorities, principals."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]


@dataclass
class Teller:
    """Tells pods, one after the other, beside the program's event loop."""

    connect: Callable[[], Client]
    turns: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))
    client: Client | None = None
    away: str | None = None
    """Why the cluster did not answer: nobody waits for it a second time in one run."""

    async def hear(self, args: pulumi.ResourceHookArgs) -> None:
        """Tell the pods of a unit whose keys changed.

        Raises RuntimeError, which the engine shows as a warning, where that was not possible.
        """
        if change := change_of(args):
            reason = await asyncio.get_running_loop().run_in_executor(self.turns, self.tell, change)
            if reason:
                said = f"unit {change.alias}: its running pod could not be told that its keys changed ({reason})"
                raise RuntimeError(f"{said}; {SLOW_PATH}")

    def tell(self, change: Change) -> str | None:
        """Annotate the unit's pods that do not know *change* yet; give the reason where that failed."""
        if self.away:
            return self.away
        try:
            with cluster.ONE_AT_A_TIME, cluster.answered():
                return self._annotate(change)
        except cluster.UnreachableError as error:
            self.away = str(error)
            return self.away

    def _annotate(self, change: Change) -> str | None:
        self.client = self.client or self.connect()
        try:
            for pod in cluster.live_pods(self.client, change.namespace, change.selector):
                if ((pod.metadata or ObjectMeta()).annotations or {}).get(ANNOTATION) != change.digest:
                    cluster.annotate(self.client, pod, {ANNOTATION: change.digest})
        except ApiError as error:
            return error.status.message or str(error)
        return None


def keys_hook(kubeconfig: str, context: str) -> pulumi.ResourceHook:
    """Give the hook for ``after_create`` and ``after_update`` of units' key lists: one for a whole program.

    It does nothing in a preview. Its errors are warnings: an update never fails by them, whatever they are.
    """
    teller = Teller(partial(cluster.connect, kubeconfig, context))
    return pulumi.ResourceHook("tell-pods-of-keys", teller.hear, pulumi.ResourceHookOptions(ignore_errors=True))
