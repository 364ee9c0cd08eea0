"""What no single value of a stack file shows: names that must exist, things that must not meet, sums that must fit."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cached_property

from components import names
from components.browser import REQUESTS
from components.flavor import Flavor
from components.landing import requests_beside
from components.model import NAME_PATTERN, quantity
from components.prepare_spec import ImagePrepare, Prepare
from components.storage_spec import StorageSpec
from components.tenant import QuotaSpec
from components.unit_spec import UnitSpec
from stacks.browser_checks import browser_image_problems, browser_problems
from stacks.egress_checks import egress_problems
from stacks.flavor_checks import flavor_problems, gpu_taint_problems
from stacks.handover_checks import handover_problems
from stacks.host_checks import host_problems, suffix_problems
from stacks.key_checks import key_problems
from stacks.oidc_checks import oidc_problems
from stacks.pod_checks import pod_problems
from stacks.prepare_checks import copy_problems
from stacks.problems import Problem, Raw, table, valid
from stacks.proxy_checks import proxy_problems
from stacks.schema import PLATFORM_IMAGES, TIER_IMAGES
from stacks.server_checks import server_of, server_problems
from stacks.storage_checks import placement_problems, sharing_problems
from stacks.tier_checks import tier_problems
from stacks.unit_checks import unit_problems
from stacks.web_checks import room_problems, web_problems

NAMESPACE_LENGTH = 63
"""A namespace is one DNS label."""

MIN_SECRET = 32
"""128 bits as hexadecimal digits: below, the secret would be the weakest part of everything derived from it."""


class View:
    """The parts of a stack file that are sound by themselves, and every name that it declares, sound or not."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.prefix = str(raw.get("namespacePrefix", ""))

    @cached_property
    def tenants(self) -> dict[str, Raw]:
        """Give the tenants as written."""
        return {name: table(tenant) for name, tenant in table(self.raw.get("tenants")).items()}

    @cached_property
    def flavors(self) -> dict[str, Flavor | None]:
        """Give every declared flavor; None where it is itself refused."""
        return {name: valid(Flavor, flavor) for name, flavor in table(self.raw.get("flavors")).items()}

    @cached_property
    def gpu_taints(self) -> tuple[str, ...]:
        """Give the keys of taints that the stack calls GPU taints."""
        found = table(self.raw.get("cluster")).get("gpuTaints")
        return tuple(str(key) for key in found) if isinstance(found, list) else ()

    @cached_property
    def images(self) -> frozenset[str]:
        """Name the images of the catalogue."""
        return frozenset(table(self.raw.get("images")))

    @cached_property
    def suffixes(self) -> tuple[str, ...]:
        """Give the platform's domain suffixes; empty where they are refused themselves."""
        ssh = table(table(self.raw.get("platform") or self.raw.get("platformStack")).get("ssh"))
        found = ssh.get("domainSuffixes")
        return tuple(str(suffix) for suffix in found) if isinstance(found, list) else ()

    def storages(self, tenant: str) -> dict[str, StorageSpec | None]:
        """Give every storage that *tenant* declares; None where it is itself refused."""
        return {name: valid(StorageSpec, raw) for name, raw in table(self.tenants[tenant].get("storages")).items()}

    @cached_property
    def all_storages(self) -> dict[str, StorageSpec | None]:
        """Give every storage of the stack by ``<storage>.<tenant>``."""
        return {f"{name}.{tenant}": spec for tenant in self.tenants for name, spec in self.storages(tenant).items()}

    @property
    def access_mode(self) -> str:
        """Give the access mode of a storage that says none."""
        return str(table(self.raw.get("storage")).get("accessMode", "ReadWriteOnce"))

    def units(self, tenant: str) -> dict[str, UnitSpec]:
        """Give the sound units of *tenant*."""
        found = {name: valid(UnitSpec, raw) for name, raw in table(self.tenants[tenant].get("units")).items()}
        return {name: unit for name, unit in found.items() if unit is not None}


def cross_problems(raw: Raw) -> Iterator[Problem]:
    """Yield every problem between the parts of *raw*; parts that are refused by themselves are left alone."""
    view = View(raw)
    yield from _secret(raw)
    yield from _platform_images(view)
    yield from browser_image_problems(view.images, view.all_storages)
    yield from proxy_problems(raw, view.images, view.all_storages)
    yield from oidc_problems(raw)
    yield from gpu_taint_problems(view.gpu_taints)
    for name, flavor in view.flavors.items():
        yield from flavor_problems(name, flavor, view.gpu_taints) if flavor else ()
    yield from egress_problems(raw, view.tenants, view.prefix)
    yield from suffix_problems(view.suffixes if "platform" in raw else ())
    yield from server_problems(raw)
    yield from handover_problems(raw)
    yield from tier_problems(raw)
    yield from room_problems(raw, view.storages, view.units)
    for tenant in view.tenants:
        yield from _namespace(view, tenant)
        yield from _storages(view, tenant)
        yield from _browsers(view, tenant)
        namespace = names.tenant_namespace(view.prefix, tenant)
        yield from web_problems(raw, tenant, namespace, view.storages(tenant), view.units(tenant))
        yield from _units(view, tenant)
        yield from _quota(view, tenant)


def _secret(raw: Raw) -> Iterator[Problem]:
    for key in ("secret", "previousSecret"):
        value = raw.get(key)
        if isinstance(value, str) and len(value) < MIN_SECRET:
            advice = f"openssl rand -hex 32 | pulumi config set --secret {names.PROJECT}:{key}"
            yield Problem(key, f"has {len(value)} characters; at least {MIN_SECRET} are needed: {advice}")


def _platform_images(view: View) -> Iterator[Problem]:
    elsewhere = TIER_IMAGES if server_of(view.raw) or "platformStack" in view.raw else frozenset()
    if missing := sorted(set(PLATFORM_IMAGES) - view.images - elsewhere):
        yield Problem(
            "images", f"lacks {', '.join(missing)}; `make images PUSH=<registry>` builds them and prints lines"
        )


def _namespace(view: View, tenant: str) -> Iterator[Problem]:
    namespace = names.tenant_namespace(view.prefix, tenant)
    path = f"tenants.{tenant}"
    if namespace in names.RESERVED_NAMESPACES or namespace.startswith(names.RESERVED_PREFIXES):
        yield Problem(
            path, f"namespace {namespace!r} is reserved; choose another name or set {names.PROJECT}:namespacePrefix"
        )
    if len(namespace) > NAMESPACE_LENGTH:
        yield Problem(path, f"namespace {namespace!r} is longer than {NAMESPACE_LENGTH} characters; shorten the name")


def _storages(view: View, tenant: str) -> Iterator[Problem]:
    storages = view.storages(tenant)
    for name, storage in storages.items():
        path = f"tenants.{tenant}.storages.{name}"
        if storage is not None and isinstance(storage.prepare, ImagePrepare):
            yield from catalogue_problem(view.images, storage.prepare.image, f"{path}.prepare.image")
        if storage is not None and storage.placement is not None:
            yield from placement_problems(f"{path}.placement", storage.placement, view.flavors, view.gpu_taints)
        yield from copy_problems(path, name, storages)


def _browsers(view: View, tenant: str) -> Iterator[Problem]:
    for name, storage in view.storages(tenant).items():
        if storage is not None:
            mode = storage.access_mode or view.access_mode
            yield from browser_problems(f"tenants.{tenant}.storages.{name}", storage, mode)


def catalogue_problem(images: Iterable[str], image: str, path: str) -> Iterator[Problem]:
    """Refuse a bare name that the catalogue does not have."""
    if NAME_PATTERN.fullmatch(image) and image not in images:
        yield Problem(path, f"{image!r} is no image of {names.PROJECT}:images, which has {', '.join(sorted(images))}")


def _units(view: View, tenant: str) -> Iterator[Problem]:
    units, storages = view.units(tenant), view.storages(tenant)
    ca = "userCa" in view.tenants[tenant] or "userCa" in view.raw
    for name, unit in units.items():
        path = f"tenants.{tenant}.units.{name}"
        yield from unit_problems(path, name, unit, storages)
        yield from key_problems(path, unit, default_ca=ca)
        yield from catalogue_problem(view.images, unit.image, f"{path}.image")
        yield from pod_problems(path, unit, view.flavors.get(unit.flavor))
        if unit.flavor not in view.flavors:
            known = ", ".join(sorted(view.flavors)) or "none"
            yield Problem(f"{path}.flavor", f"{unit.flavor!r} is no flavor of this stack, which has {known}")
        if unit.domain_suffix and unit.domain_suffix not in view.suffixes:
            known = ", ".join(view.suffixes)
            yield Problem(f"{path}.domainSuffix", f"{unit.domain_suffix!r} is none of the platform's suffixes: {known}")
    yield from sharing_problems(f"tenants.{tenant}.storages", storages, units, view.access_mode)
    yield from host_problems(tenant, names.tenant_namespace(view.prefix, tenant), units, view.suffixes)


def _quota(view: View, tenant: str) -> Iterator[Problem]:
    """Compare the quota with what running units and browsers request, and the largest prepare beside them."""
    quota = valid(QuotaSpec, view.tenants[tenant].get("quota", {}))
    if quota is None:
        return
    wanted = _wanted(view, tenant)
    limits = {"gpus": quota.gpus, "cpu": quota.cpu, "memory": quota.memory, "storage": quota.storage}
    for what, limit in limits.items():
        if limit is not None and wanted[what] > quantity(str(limit)):
            yield Problem(
                f"tenants.{tenant}.quota.{what}",
                f"{limit} is less than the {wanted[what].normalize():f} that the tenant's units and storages request",
            )


def _wanted(view: View, tenant: str) -> dict[str, Decimal]:
    units = [unit for unit in view.units(tenant).values() if unit.running]
    flavors = [flavor for unit in units if (flavor := view.flavors.get(unit.flavor))]
    storages = [storage for storage in view.storages(tenant).values() if storage]
    beside = [requests_beside(unit.ssh.mode if unit.ssh else None, held=unit.hold is not None) for unit in units]
    beside += [{what: quantity(amount) for what, amount in REQUESTS.items()} for one in storages if one.browser]
    prepares = [storage.prepare for storage in storages if storage.prepare]
    return {
        "gpus": Decimal(sum(flavor.devices for flavor in flavors)),
        "cpu": _sum(f.cpu for f in flavors) + sum(one["cpu"] for one in beside) + _largest(prepares, "cpu"),
        "memory": _sum(f.memory for f in flavors) + sum(one["memory"] for one in beside) + _largest(prepares, "memory"),
        "storage": _sum(storage.size for storage in storages),
    }


def _sum(amounts: Iterable[str]) -> Decimal:
    return sum(map(quantity, amounts), Decimal(0))


def _largest(prepares: Iterable[Prepare], what: str) -> Decimal:
    return max((quantity(getattr(prepare, what)) for prepare in prepares), default=Decimal(0))
