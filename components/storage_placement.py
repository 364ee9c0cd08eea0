"""Where the pods run that fill a volume or show it: where its units do, so that its data lands beside their GPUs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import Field

from components import names
from components.dns import LabelKey, LabelValue
from components.flavor import Flavor, TolerationSpec, is_share
from components.model import Manifest, Model, Name


class PlacementSpec(Model):
    """Nodes in place of those of the units: a flavor's, or nodes by label and taint."""

    flavor: Name | None = None
    node_selector: dict[LabelKey, LabelValue] = Field(default={})
    tolerations: tuple[TolerationSpec, ...] = ()


@dataclass(frozen=True)
class Consumer:
    """A unit that mounts the volume."""

    name: str
    flavor: Flavor
    node_selector: Mapping[str, str] = field(default_factory=dict)
    running: bool = True


@dataclass(frozen=True)
class PodPlacement:
    """What pods beside the units need so that they may run where these do; they request no GPU."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Manifest, ...] = ()
    beside: str | None = None
    """The running unit that holds a volume which one node at a time can mount."""
    unit_selector: Mapping[str, str] = field(default_factory=dict)
    """The labels of the nodes on which that unit may run."""

    @property
    def manifest(self) -> Manifest:
        """Give what a pod's spec gets that runs before the units: nothing where nothing is to be said."""
        said = {"nodeSelector": dict(self.node_selector), "tolerations": [dict(one) for one in self.tolerations]}
        return {key: value for key, value in said.items() if value}

    @property
    def with_unit(self) -> Manifest:
        """Give what a pod's spec gets that mounts the volume while a unit does: it goes where that unit is to be.

        The labels are the unit's, so that one that moves has its browser's pod replaced, and not put beside the old pod
        of the unit: the engine changes storages first.
        """
        if self.beside is None:
            return self.manifest
        return {**PodPlacement(self.unit_selector, self.tolerations).manifest, "affinity": _on_the_node_of(self.beside)}


ANYWHERE = PodPlacement()


def pod_placement(
    said: PlacementSpec | None, flavors: Mapping[str, Flavor], consumers: Sequence[Consumer], *, one_node: bool
) -> PodPlacement:
    """Place the pods of a storage by what is *said* of it, else where its *consumers* run.

    *one_node*: one node at a time can mount the volume. A label on which consumers differ selects nothing.
    """
    beside = next((unit for unit in consumers if one_node and unit.running), None)
    selector, tolerations = _said(said, flavors) if said else _of(consumers)
    if beside is None:
        return PodPlacement(selector, _sorted(tolerations))
    stood = _sorted([*tolerations, *_tolerations(beside.flavor)])
    return PodPlacement(selector, stood, beside.name, _selector(beside))


def _said(said: PlacementSpec, flavors: Mapping[str, Flavor]) -> tuple[Mapping[str, str], list[Manifest]]:
    if said.flavor is None:
        return said.node_selector, [toleration.manifest for toleration in said.tolerations]
    flavor = flavors[said.flavor]
    return flavor.node_selector, _tolerations(flavor)


def _of(consumers: Sequence[Consumer]) -> tuple[Mapping[str, str], list[Manifest]]:
    return _common(list(map(_selector, consumers))), [one for unit in consumers for one in _tolerations(unit.flavor)]


def _selector(unit: Consumer) -> dict[str, str]:
    return {**unit.flavor.node_selector, **unit.node_selector}


def _common(selectors: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first = selectors[0] if selectors else {}
    return {key: value for key, value in first.items() if all(one.get(key) == value for one in selectors)}


def _tolerations(flavor: Flavor) -> list[Manifest]:
    """Give what a flavor tolerates, and the taints by which GPU nodes are kept for pods that request their GPUs.

    Clusters let such pods stand those by themselves (ExtendedResourceToleration); ours request none.
    """
    devices = [resource for resource in flavor.extended if not is_share(resource)]
    own = [toleration.manifest for toleration in flavor.tolerations]
    return [*own, *({"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in devices)]


def _sorted(tolerations: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """Order them, each once."""
    return tuple({str(sorted(one.items())): one for one in sorted(tolerations, key=str)}.values())


def _on_the_node_of(unit: str) -> Manifest:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [node_of("unit", unit)]}}


def node_of(component: str, instance: str) -> Manifest:
    """Give the term of an affinity that names the node on which an *instance* of *component* runs."""
    chosen = {"matchLabels": names.selector(component, instance)}
    return {"labelSelector": chosen, "topologyKey": "kubernetes.io/hostname"}
