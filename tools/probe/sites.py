"""Where a stack is, by its name; apart from the rest, since reading a stack file takes a second."""

from tools.probe.fresh import Site
from tools.stack.reading import read_stack


def site_of(name: str) -> Site:
    """Say where the stack *name* is. Raises ToolError where it has no file, or a wrong one."""
    stack = read_stack(name)
    return Site(stack.owner, stack.config.cluster.kubeconfig, stack.config.cluster.context)
