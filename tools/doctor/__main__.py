"""``python -m tools.doctor --stack X [--json]``: whether a cluster can carry a stack, and keeps its walls.

It needs the stack file and a kubeconfig, and no `up` before. Nothing that it makes stays.
Exit status: 0 well, or only warned of; 1 something must be mended; 2 the cluster or the stack file cannot be asked.
"""

import argparse
from collections.abc import Iterator

from lightkube import ApiError, Client

from components import cluster
from stacks.ownership import claims
from stacks.resolve import Stack
from tools.doctor import admission
from tools.doctor.entrance import entrance
from tools.doctor.facts import Facts, gather
from tools.doctor.findings import Finding, as_json, fail, failed, table
from tools.doctor.gpus import gpus
from tools.doctor.plugins import plugin
from tools.doctor.rights import reviewer, rights
from tools.doctor.room import room, room_owner
from tools.doctor.site import site
from tools.doctor.storage import storage
from tools.doctor.versions import image_volumes, versions
from tools.doctor.walls import CHECK, Trial, walls
from tools.shell import ToolError, command, say
from tools.stack.reading import read_stack
from tools.stack.workspace import LOCAL

CANNOT_ASK = 2


def main() -> int:
    """Do what the command line says; return the exit status."""
    arguments = _parser().parse_args()
    try:
        findings = examine(read_stack(arguments.stack))
    except (ToolError, OSError) as error:
        say(f"error: {error}")
        return CANNOT_ASK
    print(as_json(findings) if arguments.json else table(findings))
    return int(failed(findings))


def examine(stack: Stack) -> list[Finding]:
    """Run every check against the stack's cluster.

    Raises ToolError when the cluster does not answer.
    """
    config = stack.config.cluster
    try:
        with cluster.connect(*config.address) as client, cluster.answered():
            say(f"doctor: stack {stack.owner}, cluster {config.context}")
            return list(_examined(client, stack))
    except cluster.UnreachableError as error:
        check = f"check the kubeconfig and `kubectl --context {config.context} get namespaces`"
        advice = "`make up` starts its rig" if stack.owner == LOCAL else check
        raise ToolError(f"the cluster cannot be asked ({error}); {advice}") from None


def _examined(client: Client, stack: Stack) -> Iterator[Finding]:
    facts = gather(client, stack)
    yield from versions(facts)
    if stack.config.cluster.image_volumes:
        yield from image_volumes(facts)
    yield from plugin(facts)
    yield from site(stack, facts, cluster.foreign(client, stack.owner, stack.namespaces, claims(stack)))
    yield from storage(stack, facts)
    yield from gpus(stack, facts)
    say("doctor: asking what you may do")
    yield from rights(stack, reviewer(client))
    say("doctor: trying admission and walls, in a namespace that is removed again")
    yield from _tried(client, stack, facts)


def _tried(client: Client, stack: Stack, facts: Facts) -> Iterator[Finding]:
    """Try in a namespace of our own what no list of objects tells; dry runs before its quota is there."""
    trial = Trial(stack, room_owner(stack.owner))
    try:
        with room(client, trial.namespace) as namespace:
            yield admission.pod_security(client, namespace)
            yield from entrance(stack, facts, lambda port: admission.node_port(client, namespace, port))
            yield from walls(client, trial, stack.config.cluster.context)
    except ApiError as error:
        yield fail(CHECK, f"cannot be tried: {error}", "get the rights that are missing above")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.doctor", description=__doc__)
    parser.add_argument("--stack", default=LOCAL, help="stack whose cluster is examined (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object per finding and line")
    return parser


if __name__ == "__main__":
    command(main)
