"""The network plugin: which one, which version, and what is known of how it reads policies."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lightkube.resources.apps_v1 import DaemonSet

from tools.doctor.facts import Facts
from tools.doctor.findings import Finding, fail, ok, warn

CHECK = "network plugin"


@dataclass(frozen=True)
class Plugin:
    """A plugin as it shows itself."""

    name: str
    container: str
    """Name of a container of its DaemonSet; the DaemonSet's own name differs between distributions."""
    quirk: str = ""
    enforces: bool = True


PLUGINS = (
    Plugin(
        "Cilium",
        "cilium-agent",
        "ranges of addresses never match pods or nodes, so holes in the walls lead outside the cluster alone",
    ),
    Plugin(
        "Calico",
        "calico-node",
        "sees packets after Service translation; a node port of another node is judged by the node's address: list "
        "public ones in cluster.nodeCidrs",
    ),
    Plugin(
        "kube-router",
        "kube-router",
        "knows a new pod only some time after its start; may judge the DNS Service's address: put it into "
        "cluster.dns.addresses where names do not resolve",
    ),
    Plugin("Antrea", "antrea-agent", "sees packets after Service translation"),
    Plugin(
        "AWS VPC CNI",
        "aws-eks-nodeagent",
        "a new pod is open until its policies are known, unless NETWORK_POLICY_ENFORCING_MODE=strict",
    ),
    Plugin("Azure NPM", "azure-npm", "for 250 nodes at most, and IPv4 alone"),
    Plugin("OVN-Kubernetes", "ovnkube-controller", "DNS pods answer on 5353 in OpenShift"),
    Plugin("OVN-Kubernetes", "ovnkube-node", "DNS pods answer on 5353 in OpenShift"),
    Plugin("Weave", "weave-npc", "is no longer maintained"),
    Plugin("kindnet", "kindnet-cni", "enforces policies since kind 0.24; before, it does not"),
    Plugin("kube-network-policies", "kube-network-policies", "needs nftables' queues in the kernel of each node"),
    Plugin("Flannel", "kube-flannel", enforces=False),
)
"""What the field is known to run; the probe, not this list, says whether policies hold."""


def plugin(facts: Facts) -> Iterator[Finding]:
    """Name what is there; a cluster whose only plugin enforces nothing fails."""
    if facts.daemon_sets is None:
        yield warn(CHECK, "you may not list daemonsets, so it is not known", "ask who runs the cluster")
        return
    found = list(_found(facts.daemon_sets))
    enforcing = [(plugin, version) for plugin, version in found if plugin.enforces]
    said = ", ".join(f"{plugin.name} {version}" for plugin, version in enforcing or found)
    if enforcing:
        yield ok(CHECK, "; ".join((said, *dict.fromkeys(plugin.quirk for plugin, _ in enforcing if plugin.quirk))))
    elif found:
        yield fail(CHECK, f"{said} alone: it ignores NetworkPolicies", "add one that enforces them, or run Canal")
    elif _is_k3s(facts):
        yield ok(CHECK, "k3s, which enforces policies by a kube-router of its own; a new pod is known some time later")
    else:
        yield warn(CHECK, "none that is known here", "rely on what is measured below: the walls in use")


def _found(daemon_sets: Iterable[DaemonSet]) -> Iterator[tuple[Plugin, str]]:
    for one in daemon_sets:
        pod = one.spec.template.spec
        images = {container.name: container.image or "" for container in (pod.containers if pod else ())}
        for known in PLUGINS:
            if known.container in images and _switched_on(known, one):
                yield known, _version(images[known.container])


def _switched_on(known: Plugin, daemon_set: DaemonSet) -> bool:
    """Judge the one agent that is always there and does nothing until it is told to."""
    if known.container != "aws-eks-nodeagent":
        return True
    pod = daemon_set.spec.template.spec
    words = [word for container in (pod.containers if pod else ()) for word in container.args or ()]
    return "--enable-network-policy=true" in words


def _version(image: str) -> str:
    """Take the tag of an image reference; a reference by digest alone has none."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return tag or "(version unknown)"


def _is_k3s(facts: Facts) -> bool:
    infos = (node.status.nodeInfo for node in facts.nodes or () if node.status)
    return any("+k3s" in info.kubeletVersion for info in infos if info)
