"""Asking the cluster of a stack, as its deployer."""

from collections.abc import Iterator
from contextlib import contextmanager

from lightkube import Client

from components import cluster
from stacks.resolve import Stack
from tools.shell import ToolError
from tools.stack.workspace import LOCAL


@contextmanager
def asked(stack: Stack) -> Iterator[Client]:
    """Connect to the stack's cluster. Raises ToolError where it does not answer, with what to do."""
    config = stack.config.cluster
    try:
        with cluster.connect(*config.address) as client, cluster.answered():
            yield client
    except cluster.UnreachableError as error:
        check = f"check the kubeconfig and `kubectl --context {config.context} get namespaces`"
        advice = "`make up` starts its rig" if stack.owner == LOCAL else check
        raise ToolError(f"the cluster cannot be asked ({error}); {advice}") from None
