"""What a cluster says of itself: asked once, judged by checks that ask nothing."""

from dataclasses import dataclass, field

import httpx2
from lightkube import Client
from lightkube.config import client_adapter
from lightkube.resources.apps_v1 import DaemonSet
from lightkube.resources.core_v1 import Node, Service
from lightkube.resources.storage_v1 import StorageClass

from components import names
from components.cluster import TIMEOUT_SECONDS, answered
from components.cluster_view import FORBIDDEN, PAGE, View, all_of, ask, look
from components.tunnel import ENTRANCE
from stacks.resolve import Stack


@dataclass(frozen=True)
class Facts:
    """The answers; None stands for what the deployer may not list."""

    version: str = ""
    """Of the API server, for example v1.31.4."""
    view: View = field(default_factory=View)
    daemon_sets: tuple[DaemonSet, ...] | None = ()
    """Of all namespaces; where that may not be asked, of kube-system."""
    storage_classes: tuple[StorageClass, ...] | None = ()
    entrances: tuple[Service, ...] | None = ()
    """The stack's own entrance, where it is up."""

    @property
    def nodes(self) -> tuple[Node, ...] | None:
        """Give the nodes."""
        return None if "nodes" in self.view.forbidden else self.view.nodes


def gather(client: Client, stack: Stack) -> Facts:
    """Ask the cluster everything that the checks judge.

    Raises UnreachableError when it does not answer.
    """
    config = stack.config.cluster
    with answered():
        version = _version(client)
    view = look(client, config.dns, admin_tier=config.admin_tier)
    answers = ask(
        client,
        {
            "daemon_sets": lambda client: client.list(DaemonSet, namespace="*", chunk_size=PAGE),
            "nearby": lambda client: client.list(DaemonSet, namespace="kube-system"),
            "storage_classes": all_of(StorageClass),
            "entrances": lambda client: client.list(
                Service, namespace=names.PLATFORM_NAMESPACE, fields={"metadata.name": ENTRANCE}
            ),
        },
    )
    seen = {name: None if answer is FORBIDDEN else answer for name, answer in answers.items()}
    nearby = seen.pop("nearby")
    daemon_sets = nearby if seen.pop("daemon_sets") is None else answers["daemon_sets"]
    return Facts(version=version, view=view, daemon_sets=daemon_sets, **seen)


def _version(client: Client) -> str:
    """Ask for the version, for which the client has no word of its own."""
    timeout = client_adapter.ConnectionParams(timeout=httpx2.Timeout(TIMEOUT_SECONDS))
    with client_adapter.Client(client.config, timeout) as plain:
        return str(plain.get("/version").raise_for_status().json()["gitVersion"])
