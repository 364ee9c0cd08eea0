"""Tell running pods that keys which they mount changed, so that these take effect within a second and not ninety.

The kubelet looks at a mounted ConfigMap or Secret every 60 to 90 seconds, and at once when something of the pod
changes: an annotation is enough. It is the pod's own, not the template's, so that nothing is replaced. A resource hook
of the program writes it after the object: with the deployer's rights, and in a bare ``pulumi up`` as well. A unit is
told of who may log in, of its host key and of what its tunnel client logs in with; the gate is told of its keys.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pulumi
from lightkube import ApiError, Client
from lightkube.models.meta_v1 import ObjectMeta

from components import cluster, names
from components.derive import fingerprint

ANNOTATION = f"{names.PROJECT}/keys"
"""On a running pod: the fingerprint of the keys that it was told of."""

HOST_KEY_ANNOTATION = f"{names.PROJECT}/host-key"
TUNNEL_ANNOTATION = f"{names.PROJECT}/tunnel"

SLOW_PATH = "they take effect there when the kubelet looks by itself, within 60 to 90 seconds"


@dataclass(frozen=True)
class Change:
    """New files of a pod."""

    who: str
    what: str
    namespace: str
    selector: names.Labels
    annotation: str
    digest: str


async def change_of(args: pulumi.ResourceHookArgs) -> Change | None:
    """Give what changed by the create or update of a ConfigMap or Secret, or None where the files in it did not."""
    files = await _files(args.new_inputs)
    if args.old_inputs and await _files(args.old_inputs) == files:
        return None
    meta = (args.new_inputs or {})["metadata"]
    labels: names.Labels = meta["labels"]
    component, instance = labels[names.COMPONENT_LABEL], labels["app.kubernetes.io/instance"]
    tenant = labels.get(names.TENANT_LABEL)
    who = f"{component} {instance}.{tenant}" if tenant else component
    what, annotation = _topic(meta["name"], instance)
    return Change(who, what, meta["namespace"], names.selector(component, instance), annotation, digest(files))


async def _files(inputs: Mapping[str, Any] | None) -> dict[str, str]:
    """Give an object's files; those of a Secret come wrapped, and in the form that the provider likes best."""
    found = [await pulumi.Output.from_input((inputs or {}).get(key)).future() for key in ("data", "stringData")]
    return {name: text for files in found for name, text in (files or {}).items()}


def _topic(name: str, instance: str) -> tuple[str, str]:
    """Say what an object called *name* gives to its pod, and which annotation tells of it."""
    if name == names.unit_host_key(instance):
        return "host key", HOST_KEY_ANNOTATION
    if name == names.unit_tunnel(instance):
        return "tunnel's files", TUNNEL_ANNOTATION
    return "keys", ANNOTATION


def digest(files: Mapping[str, str]) -> str:
    """Give one short fingerprint of all *files*, which shows none of them."""
    return fingerprint(*(part for name in sorted(files) for part in (name, files[name])))


@dataclass
class Teller:
    """Tells pods, one after the other, beside the program's event loop."""

    connect: Callable[[], Client]
    turns: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))
    client: Client | None = None
    away: str | None = None
    """Why the cluster did not answer: nobody waits for it a second time in one run."""

    async def hear(self, args: pulumi.ResourceHookArgs) -> None:
        """Tell the pods whose files changed.

        Raises RuntimeError, which the engine shows as a warning, where that was not possible.
        """
        if change := await change_of(args):
            reason = await asyncio.get_running_loop().run_in_executor(self.turns, self.tell, change)
            if reason:
                told = f"{change.who}: its running pod could not be told that its {change.what} changed"
                raise RuntimeError(f"{told} ({reason}); {SLOW_PATH}")

    def tell(self, change: Change) -> str | None:
        """Annotate the pods that do not know *change* yet; give the reason where that failed."""
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
                if ((pod.metadata or ObjectMeta()).annotations or {}).get(change.annotation) != change.digest:
                    cluster.annotate(self.client, pod, {change.annotation: change.digest})
        except ApiError as error:
            return error.status.message or str(error)
        return None


def keys_hook(kubeconfig: str, context: str) -> pulumi.ResourceHook:
    """Give the hook for the objects that pods are told of (see told_by): one for a whole program.

    It does nothing in a preview. Its errors are warnings: an update never fails by them, whatever they are.
    """
    teller = Teller(partial(cluster.connect, kubeconfig, context))
    return pulumi.ResourceHook("tell-pods-of-keys", teller.hear, pulumi.ResourceHookOptions(ignore_errors=True))


def told_by(hook: pulumi.ResourceHook | None, *roles: str) -> dict[str, pulumi.ResourceOptions]:
    """Give options by role: after each create and update of these objects, *hook* tells the pods that mount them."""
    if hook is None:
        return {}
    told = pulumi.ResourceHookBinding(after_create=[hook], after_update=[hook])
    return {role: pulumi.ResourceOptions(hooks=told) for role in roles}
