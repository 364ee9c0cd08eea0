"""Kubernetes versions: of the API server and of every node."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from lightkube.resources.core_v1 import Node

from tools.doctor.facts import Facts
from tools.doctor.findings import Finding, fail, ok, warn

OLDEST = (1, 29)
"""The first with sidecars by restart policy switched on: tunnel servers and the proxy have some."""

IMAGE_VOLUMES = (1, 35)
"""The first that mounts images as volumes without being told to."""

CHECK = "Kubernetes"


def image_volumes(facts: Facts) -> Iterator[Finding]:
    """Judge whether the versions are such that `cluster.imageVolumes` can hold."""
    server, kubelets = facts.version, _kubelets(facts.nodes or ())
    old = [version for version in (server, *kubelets) if _older(version, IMAGE_VOLUMES)]
    if old:
        advice = "say cluster.imageVolumes: false, unless its feature gate ImageVolume is on everywhere"
        yield warn("image volumes", f"{', '.join(old)} does not mount images by itself", advice)
    else:
        yield ok("image volumes", f"Kubernetes {server} mounts images as volumes, where the container runtime does")


def versions(facts: Facts) -> Iterator[Finding]:
    """Judge the API server's version and the kubelets'."""
    server, kubelets = facts.version, _kubelets(facts.nodes or ())
    said = f"API server {server}, {_counted(kubelets) or 'kubelets not seen'}"
    old = [version for version in (server, *kubelets) if _older(version, OLDEST)]
    if old:
        needed = ".".join(map(str, OLDEST))
        yield fail(CHECK, said, f"{', '.join(old)} is older than {needed}, where sidecars begin: upgrade")
    elif facts.nodes is None:
        yield warn(CHECK, said, "you may not list nodes: see that every kubelet is 1.29 or newer")
    else:
        yield ok(CHECK, said)


def _kubelets(nodes: Iterable[Node]) -> Counter[str]:
    said = (node.status.nodeInfo for node in nodes if node.status)
    return Counter(info.kubeletVersion for info in said if info)


def _counted(kubelets: Counter[str]) -> str:
    return ", ".join(f"{count} {'node' if count == 1 else 'nodes'} {version}" for version, count in kubelets.items())


def _older(version: str, than: tuple[int, int]) -> bool:
    """Compare major and minor; a version that cannot be read counts as old."""
    read = re.match(r"v(\d+)\.(\d+)", version)
    return read is None or (int(read[1]), int(read[2])) < than
