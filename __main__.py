"""The program: config in, law judged, components, outputs out."""

import pulumi

from components.access import TenantAccess
from components.arrival import demand
from components.filling import tell
from components.probe import Probe
from components.process import begin
from components.proxy import AccessProxy
from components.restart import demand_clear
from components.tenant import Tenant
from components.tunnel import TunnelTier
from components.unit_tunnel import credentials
from policy.law import judge
from stacks import outputs, ownership
from stacks.keys import Keys
from stacks.load import load, owner
from stacks.making import Given, make
from stacks.resolve import Stack


def main() -> None:
    """Build the stack that the engine runs, or refuse it before anything is registered."""
    begin()
    stack = Stack(load(me := owner(pulumi.get_stack())), me)
    demand_clear(stack.units)
    keys = Keys(stack)
    if found := judge(stack.manifests()):  # so that a bare `pulumi up` without the pack is refused as well
        raise pulumi.RunError("\n".join(("the stack breaks the law:", *(f"  - {v.text}" for v in found))))
    refill = ownership.demand(stack)

    within = pulumi.ResourceOptions(provider=ownership.provider(stack.config.cluster))
    tenants = {name: Tenant(spec, within) for name, spec in stack.tenants.items()}
    secrets = {alias: keys.unit(unit, keys.host_key(unit)) for alias, unit in stack.units.items()}
    told, rolled = ownership.hooks(stack)
    logins = {a: credentials(u, secrets[a], _after(within, tenants[u.tenant]), told) for a, u in stack.units.items()}
    tier = [TunnelTier(stack.tunnel, keys.tunnel(), within, logins.values(), rolled, told)] if stack.tunnel else []
    front = [AccessProxy(p, keys.proxy(p), _after(within, *tier)) for p in (stack.proxy,) if p]
    for access in stack.access.values():
        TenantAccess(access, keys.passwords(access), _after(within, tenants[access.tenant], *front))
    proven = _after(within, Probe(stack.probe, _after(within, Tenant(stack.probe_tenant, within), *tier, *front)))
    given = Given(secrets, logins, told)
    units, storages = make(stack, lambda tenant, *more: _after(proven, tenants[tenant], *more), refill, given)
    _ = tell((storage.filling for storage in storages if storage.filling), ownership.storage_looker(stack))
    demand((unit.arriving for unit in units), ownership.looker(stack))
    outputs.export(stack, keys)


def _after(options: pulumi.ResourceOptions, *resources: pulumi.Resource) -> pulumi.ResourceOptions:
    """Order what *options* is given to after *resources*: walls and their proof before pods, data before programs."""
    return pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=list(resources)))


main()
