"""Problems of what a browser would reach: hosts of one label each, and somebody who leads there."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from components import access
from components.names import PROJECT
from components.storage_spec import StorageSpec
from components.unit_spec import UnitSpec
from stacks.problems import Problem, Raw, table

LABEL_LENGTH = 63
"""Of one label of a host name."""

JOINT = "--"
"""Joins the parts of a host, so that none of them may have it."""

MOST_PORTS = 64
"""Of one unit on the web: `routes` reads no more."""

ENCODED = "xn"
"""Before a joint it would mark a name in another alphabet."""


Storages = Mapping[str, StorageSpec | None]
Units = Mapping[str, UnitSpec]

ONCE = "whose claims are written once and not for each host"


def has_proxy(raw: Raw) -> bool:
    """Say whether the stack's platform, or the one that it uses, leads browsers to it."""
    said = raw.get("platform") or raw.get("platformStack")
    return isinstance(said, Mapping) and said.get("browser") is not None


def web_problems(
    raw: Raw, tenant: str, namespace: str, storages: Mapping[str, StorageSpec | None], units: Mapping[str, UnitSpec]
) -> Iterator[Problem]:
    """Yield the problems of the hosts of *tenant*, and of who may come."""
    yield from _users(raw, tenant)
    for name, storage in storages.items():
        if storage is not None and storage.browser is not None:
            yield from _host(f"tenants.{tenant}.storages.{name}.browser", (name,), namespace)
    for name, unit in units.items():
        if (count := sum(port.expose == "web" for port in unit.ports)) > MOST_PORTS:
            yield Problem(f"tenants.{tenant}.units.{name}.ports", f"{count} are on the web; at most {MOST_PORTS} are")
        for port in unit.ports:
            if port.expose == "web":
                path = f"tenants.{tenant}.units.{name}.ports.{port.name}.expose"
                yield from _host(path, (port.name, name), namespace)
                yield from _nobody(raw, path)


def room_problems(raw: Raw, storages: Callable[[str], Storages], units: Callable[[str], Units]) -> Iterator[Problem]:
    """Yield the problem of people whose names at all their hosts would leave `routes` no room for anybody else."""
    advice = f"name fewer webUsers or webClaims (a group in place of its people), or let issuers sign people in, {ONCE}"
    total = 0
    for tenant, said in table(raw.get("tenants")).items():
        shown = sum(one is not None and one.browser is not None for one in storages(tenant).values())
        ports = sum(port.expose == "web" for unit in units(tenant).values() for port in unit.ports)
        heavy = access.weight(_users_of(tenant, said), _claims_of(said), 2 + shown + ports)
        total += heavy
        if heavy > access.HEAVIEST:
            takes = f"{2 + shown + ports} hosts and their people take the proxy {heavy} bytes; {access.HEAVIEST} are"
            yield Problem(f"tenants.{tenant}", f"{takes} a tenant's part: {advice}")
    if total > access.HEAVIEST_STACK:
        takes = f"hosts and their people take the proxy {total} bytes in all; {access.HEAVIEST_STACK} are"
        yield Problem("tenants", f"{takes} a stack's part: {advice}")


def _users_of(tenant: str, said: object) -> Iterable[str]:
    users = table(said).get("webUsers")
    return [tenant] if users is None else _texts(users)


def _claims_of(said: object) -> Mapping[str, Iterable[str]]:
    return {str(name): list(_texts(values)) for name, values in table(table(said).get("webClaims")).items()}


def _nobody(raw: Raw, path: str) -> Iterator[Problem]:
    if not has_proxy(raw):
        advice = f"say {PROJECT}:platform.browser: {{host: files.example.com}} in the stack of the platform"
        yield Problem(path, f"nobody would reach it: there is no proxy; {advice}")


def _host(path: str, parts: tuple[str, ...], namespace: str) -> Iterator[Problem]:
    """Refuse a host that is too long, or that could be read as another's."""
    label = JOINT.join((*parts, namespace))
    if len(label) > LABEL_LENGTH:
        advice = "shorten the names of it, of the tenant or of gpu-runtime:namespacePrefix"
        yield Problem(path, f"its host {label} has {len(label)} characters; {LABEL_LENGTH} fit one label: {advice}")
    if JOINT in namespace:
        yield Problem("namespacePrefix", f"{namespace!r} has '{JOINT}' in it, which joins the parts of a host")
    if any(JOINT in part for part in parts):
        yield Problem(path, f"{parts[0]!r} has '{JOINT}' in it, which joins the parts of a host; choose another name")
    if parts[0] == ENCODED:
        yield Problem(path, f"{ENCODED!r} before '{JOINT}' would mark a host in another alphabet; choose another name")


def _users(raw: Raw, tenant: str) -> Iterator[Problem]:
    tenants = raw.get("tenants")
    said = tenants.get(tenant) if isinstance(tenants, Mapping) else None
    users = said.get("webUsers") if isinstance(said, Mapping) else None
    for user, count in Counter(_texts(users)).items():
        if count > 1:
            yield Problem(f"tenants.{tenant}.webUsers", f"{user!r} is named {count} times; once is enough")


def _texts(value: object) -> Iterable[str]:
    return (one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
