"""Where a stack is and what it says of its walls; apart from the rest, since reading a stack file takes a second."""

from stacks.resolve import Stack
from tools.probe.drift import compare
from tools.probe.fresh import Site, reached, try_walls
from tools.stack.reading import read_stack


def prove_named(name: str, *, table: bool = False) -> None:
    """Prove the walls of the stack *name*. Raises ToolError; also where it has no file, or a wrong one."""
    prove_stack(read_stack(name), table=table)


def prove_stack(stack: Stack, *, table: bool = False) -> None:
    """See that the policies in the cluster are those of *stack*, then that they are enforced. Raises ToolError."""
    site = site_of(stack)
    with reached(site) as client:
        compare(client, stack)
        try_walls(client, site, table=table)


def site_of(stack: Stack) -> Site:
    """Say where *stack* is."""
    return Site(stack.owner, stack.config.cluster.kubeconfig, stack.config.cluster.context)
