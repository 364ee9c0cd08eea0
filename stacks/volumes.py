"""From what a stack file says of storages to their specs: where they are filled, from what, and who mounts them."""

from collections.abc import Iterator

from components.prepare_spec import ImagePrepare, Prepare, StoragePrepare
from components.storage_placement import Consumer, PodPlacement, pod_placement
from components.storage_spec import AccessMode, Source, Storage, StorageSpec
from stacks.schema import StackConfig


def storages_of(config: StackConfig, tenant: str, namespace: str, owner: str) -> Iterator[Storage]:
    """Resolve the storages of one tenant, whose *namespace* and stack (*owner*) are given."""
    for name, spec in config.tenants[tenant].storages.items():
        consumers = _consumers(config, tenant, name)
        yield Storage(
            name=name,
            tenant=tenant,
            namespace=namespace,
            owner=owner,
            spec=spec,
            storage_class=spec.storage_class or config.storage.storage_class,
            access_mode=_access_mode(config, spec),
            placement=_placement(config, tenant, name),
            bundle=config.bundle,
            prepare_image=_prepare_image(config, spec.prepare),
            browser_image=config.images["dufs"] if spec.browser else None,
            source=_source(config, tenant, spec.prepare),
            running=tuple(unit.name for unit in consumers if unit.running),
            resting=tuple(unit.name for unit in consumers if not unit.running),
        )


def image_of(config: StackConfig, name: str) -> str:
    """Give what the catalogue calls *name*; a reference stands for itself."""
    return config.images.get(name, name)


def _prepare_image(config: StackConfig, said: Prepare | None) -> str | None:
    if said is None:
        return None
    return image_of(config, said.image) if isinstance(said, ImagePrepare) else config.images["prepare"]


def _source(config: StackConfig, tenant: str, said: Prepare | None) -> Source | None:
    if not isinstance(said, StoragePrepare):
        return None
    spec = config.tenants[tenant].storages[said.source]
    shown = spec.browser is not None and _access_mode(config, spec) == "ReadWriteOnce"
    return Source(said.source, _placement(config, tenant, said.source), shown)


def _placement(config: StackConfig, tenant: str, storage: str) -> PodPlacement:
    spec, consumers = config.tenants[tenant].storages[storage], _consumers(config, tenant, storage)
    one_node = _access_mode(config, spec) == "ReadWriteOnce"
    return pod_placement(spec.placement, config.flavors, consumers, one_node=one_node)


def _access_mode(config: StackConfig, spec: StorageSpec) -> AccessMode:
    return spec.access_mode or config.storage.access_mode


def _consumers(config: StackConfig, tenant: str, storage: str) -> list[Consumer]:
    units = config.tenants[tenant].units.items()
    return [
        Consumer(name, config.flavors[unit.flavor], unit.node_selector, unit.running)
        for name, unit in units
        if storage in unit.storages
    ]
