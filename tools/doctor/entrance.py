"""The way in: whether the Service that clients reach can get an address."""

from collections.abc import Callable, Iterator

from stacks.resolve import Stack
from tools.doctor.facts import Facts
from tools.doctor.findings import Finding, fail, ok, warn

CHECK = "way in"

CLOUDS = ("aws", "azure", "gce", "digitalocean", "linode", "oci", "hcloud", "openstack", "ibm", "vsphere")
"""Schemes of a node's provider whose controllers make load balancers."""

BALANCERS = ("metallb", "speaker", "kube-vip", "cilium", "svclb", "purelb", "loxilb", "porter", "openelb")
"""Words in names of DaemonSets that give addresses to Services where no cloud does."""

Taken = Callable[[int], str | None]
"""Ask whether a node port can be had; None: yes, else why not, in the API server's words."""


def entrance(stack: Stack, facts: Facts, taken: Taken) -> Iterator[Finding]:
    """Judge the type of the entrance against what the cluster shows."""
    ssh = stack.config.ssh
    if other := stack.config.platform_stack:
        yield ok(CHECK, f"the platform of stack {other.owner}, at {ssh.connect.host}:{ssh.connect.port}")
        return
    if ssh.server is not None:
        yield ok(CHECK, "the tunnel servers are elsewhere: no Service is made here")
        return
    said = f"{ssh.service.type}, clients connect to {ssh.connect.host}:{ssh.connect.port}"
    if ssh.service.node_port is not None and not _holds(facts, ssh.service.node_port):
        if why := taken(ssh.service.node_port):
            yield fail(CHECK, f"{said}; node port {ssh.service.node_port}: {why}", "choose another nodePort")
            return
        said = f"{said}; node port {ssh.service.node_port} is free"
    yield from _by_type(ssh.service.type, said, facts)


def _by_type(kind: str, said: str, facts: Facts) -> Iterator[Finding]:
    if kind == "ClusterIP":
        yield ok(CHECK, f"{said}, which something of yours must lead to the Service")
    elif kind == "NodePort":
        yield ok(CHECK, f"{said}, which must be an address of a node or lead to one")
    elif address := _address(facts):
        yield ok(CHECK, f"{said}; the load balancer is at {address}")
    elif evidence := _balancer(facts):
        yield ok(CHECK, f"{said}; {evidence} gives addresses")
    else:
        advice = "install one (MetalLB, kube-vip), or set the service's type to NodePort"
        yield warn(CHECK, f"{said}; nothing here is known to make load balancers", advice)


def _holds(facts: Facts, port: int) -> bool:
    """Say whether the stack's own Service has the port already."""
    specs = (one.spec for one in facts.entrances or () if one.spec)
    return any(said.nodePort == port for spec in specs for said in spec.ports or ())


def _address(facts: Facts) -> str | None:
    for one in facts.entrances or ():
        state = one.status.loadBalancer if one.status else None
        for given in (state.ingress if state else None) or ():
            return given.ip or given.hostname
    return None


def _balancer(facts: Facts) -> str | None:
    schemes = {(node.spec.providerID or "").partition(":")[0] for node in facts.nodes or () if node.spec}
    if cloud := next((scheme for scheme in sorted(schemes) if scheme in CLOUDS), None):
        return f"the cloud ({cloud})"
    found = ((one.metadata.name if one.metadata else None) or "" for one in facts.daemon_sets or ())
    return next((name for name in found if any(word in name for word in BALANCERS)), None)
