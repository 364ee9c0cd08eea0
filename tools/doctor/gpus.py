"""Flavors: whether nodes have what each asks for."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from lightkube.models.core_v1 import Taint
from lightkube.resources.core_v1 import Node

from components.flavor import Flavor, is_share
from components.model import quantity
from policy.baseline import is_gpu_resource
from stacks.resolve import Stack
from tools.doctor.facts import Facts
from tools.doctor.findings import Finding, fail, ok, warn

KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})


def gpus(stack: Stack, facts: Facts) -> Iterator[Finding]:
    """Judge each flavor against the nodes: as many units as it has running must find room at once."""
    if facts.nodes is None:
        yield warn("flavors", "you may not list nodes", "see that they have the GPUs that the flavors name")
        return
    units = Counter(unit.spec.flavor for unit in stack.units.values() if unit.spec.running)
    for name, flavor in stack.config.flavors.items():
        yield _judged(name, flavor, units[name], facts.nodes)


def _judged(name: str, flavor: Flavor, units: int, nodes: Iterable[Node]) -> Finding:
    check = f"flavor {name}"
    selected = [node for node in nodes if flavor.node_selector.items() <= _labels(node).items()]
    usable = [node for node in selected if not _keys(node, flavor) - flavor.extended.keys()]
    room = sum(_fits(flavor, _allocatable(node)) for node in usable)
    said = f"room for {room} on {len(usable)} nodes by what they have, {units} running in the stack file"
    if flavor.claim:
        said += f"; nobody looked for devices of class {flavor.claim.device_class}"
    if room >= max(units, 1):
        return _reachable(check, said, flavor, usable)
    bad = fail if units else warn  # a flavor that no unit uses harms nobody
    return bad(check, said, _advice(flavor, selected, usable))


def _reachable(check: str, said: str, flavor: Flavor, usable: Iterable[Node]) -> Finding:
    """Warn of nodes tainted by the name of their GPUs: where admission lets in whoever asks for them, that is well."""
    tainted = set().union(*(_keys(node, flavor) for node in usable))
    if not tainted:
        return ok(check, said)
    plugin = "the admission plugin ExtendedResourceToleration (some clouds have it)"
    advice = f"give the flavor tolerations, switch on {plugin}, or remove the taint"
    return warn(check, f"{said}; nodes are tainted {', '.join(sorted(tainted))}", advice)


def _advice(flavor: Flavor, selected: list[Node], usable: list[Node]) -> str:
    """Name the first thing that keeps units out."""
    if not selected:
        return f"no node has the labels {_pairs(flavor.node_selector)}" if flavor.node_selector else "no node is there"
    if not usable:
        keys = sorted(set().union(*(_keys(node, flavor) for node in selected)))
        return f"its nodes are tainted ({', '.join(keys)}): give the flavor tolerations, for GPUs' taints alone"
    # a node whose plugin stopped still names its resource, with none of it
    there_are = {key for node in usable for key, count in _allocatable(node).items() if quantity(count) > 0}
    if missing := sorted(_counted(flavor).keys() - there_are):
        seen = sorted(filter(is_gpu_resource, there_are))
        there = f"nodes have {', '.join(seen)}: set the flavor's resource" if seen else "install its device plugin"
        return f"no node has {', '.join(missing)}; {there}"
    return f"no room for {_needs_text(flavor)} on enough nodes: add nodes, or make the flavor smaller"


def _fits(flavor: Flavor, there: Mapping[str, str]) -> int:
    """Count the units that an empty node takes."""
    return min(int(quantity(there.get(key, "0")) // amount) for key, amount in _needs(flavor).items())


def _needs(flavor: Flavor) -> dict[str, Decimal]:
    said = {"cpu": flavor.cpu, "memory": flavor.memory, "ephemeral-storage": flavor.ephemeral}
    return {**_counted(flavor), **{key: quantity(value) for key, value in said.items() if value is not None}}


def _counted(flavor: Flavor) -> dict[str, Decimal]:
    """Give the GPU resources that nodes count: not memory and cores of shares, nor a driver's devices."""
    return {name: Decimal(amount) for name, amount in flavor.extended.items() if not is_share(name)}


def _needs_text(flavor: Flavor) -> str:
    gpus = "".join(f"{amount} {name}, " for name, amount in _counted(flavor).items())
    return f"{gpus}{flavor.cpu} CPUs and {flavor.memory} of memory"


def _pairs(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items())


def _labels(node: Node) -> dict[str, str]:
    return (node.metadata.labels if node.metadata else None) or {}


def _allocatable(node: Node) -> dict[str, str]:
    return (node.status.allocatable if node.status else None) or {}


def _keys(node: Node, flavor: Flavor) -> set[str]:
    """Name the taints that keep the flavor's pods out."""
    taints = (node.spec.taints if node.spec else None) or ()
    return {taint.key for taint in taints if taint.effect in KEEPS_OUT and not _stands(flavor, taint)}


def _stands(flavor: Flavor, taint: Taint) -> bool:
    """Say whether a toleration of *flavor* covers *taint*."""
    return any(
        (said.key, said.effect) == (taint.key, taint.effect)
        and (said.operator == "Exists" or said.value == (taint.value or ""))
        for said in flavor.tolerations
    )
