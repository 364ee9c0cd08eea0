"""What a stack tells its operator: how each unit is reached, and what outlives the stack.

Nothing here is secret but what a platform hands to each stack that it admits.
"""

from typing import Any

import pulumi

from components import names
from components.gpu_unit import Unit, access_url
from components.proxy_spec import ProxySpec, url
from components.ssh_client import Access
from stacks import handover
from stacks.keys import Keys
from stacks.resolve import Stack
from stacks.schema import Shown


def export(stack: Stack, keys: Keys) -> None:
    """Export the outputs and say which claims are retained."""
    for name, value in {**outputs(stack, keys), **handed_over(stack, keys)}.items():
        pulumi.export(name, value)
    if kept := retained(stack):
        pulumi.log.info(f"kept when this stack is destroyed, with their namespaces: {', '.join(kept)}")


def outputs(stack: Stack, keys: Keys) -> dict[str, Any]:
    """Give the outputs as plain data.

    Keys: units (alias to how it is reached), ssh_config (one text), known_hosts (one text), retained (claims),
    protected (aliases of storages).
    """
    accesses = {alias: access for alias, unit in stack.units.items() if (access := keys.access(unit))}
    return {
        "units": {alias: _reached(unit, accesses.get(alias)) for alias, unit in stack.units.items()},
        "ssh_config": "\n".join(access.handout() for access in accesses.values()),
        "known_hosts": "".join(f"{a.known_hosts}\n" for a in accesses.values()),
        "retained": retained(stack),
        "protected": [alias for alias, storage in stack.storages.items() if storage.spec.protect],
        **_shown(stack, keys),
    }


def _shown(stack: Stack, keys: Keys) -> dict[str, Any]:
    """Say where browsers find what there is; with a derived certificate, whom they must trust."""
    if (said := stack.config.browser) is None:
        return {}
    at = url(said.host, said.port)
    trusted = {"ca": keys.browser_authority} if keys.browser_authority else {}
    shown = [storage for storage in stack.storages.values() if storage.spec.browser]
    # the main host leads on to the storage's own
    paths = {one.alias: f"{at}{names.browser_path(one.namespace, one.name)}/" for one in shown}
    pages = {name: f"{url(names.index_host(a.namespace, said.host), said.port)}/" for name, a in stack.access.items()}
    return {"browser": {"url": at, **trusted}, "storages": paths, "ports": _ports(stack, said), "pages": pages}


def _ports(stack: Stack, said: ProxySpec | Shown) -> dict[str, str]:
    """Say by ``<port>.<unit>.<tenant>`` where browsers find the ports that are exposed to them."""
    return {
        f"{port.name}.{alias}": f"{url(names.port_host(port.name, unit.name, unit.namespace, said.host), said.port)}/"
        for alias, unit in stack.units.items()
        for port in unit.spec.web
    }


def handed_over(stack: Stack, keys: Keys) -> dict[str, Any]:
    """Give what stacks of tenants alone read: ``platform``, public, and a secret ``admitted-<stack>`` for each."""
    if stack.tunnel is None:
        return {}
    admitted = {handover.secret_output(owner): given for owner, given in keys.admitted().items()}
    return {handover.PUBLIC: keys.handed_over(), **admitted}


def _reached(unit: Unit, access: Access | None) -> dict[str, Any]:
    url = {"url": access_url(unit)}
    if access is None:
        return url
    connect = {"host": access.connect_host, "port": access.connect_port}
    return {
        **url,
        "ssh": access.command,
        "user": access.user,
        "host": access.host,
        "connect": connect,
        "hostKey": access.host_key,
    }


def retained(stack: Stack) -> list[str]:
    """Name, as ``<namespace>/<claim>``, the claims that stay when the stack goes."""
    kept = (storage for storage in stack.storages.values() if not storage.spec.delete_with_stack)
    return [f"{storage.namespace}/{names.claim(storage.name)}" for storage in kept]
