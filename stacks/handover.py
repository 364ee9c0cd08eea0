"""How a platform's stack and the stacks that it admits meet: two outputs of the one, read by the others.

They are read by the engine's own function behind StackReference, and not by a StackReference: that resource would keep
every output of the platform, other stacks' keys included, in the state of the stack that refers to it; and it gives
values that a preview may not know, while walls and names depend on these.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pulumi

from components.names import PROJECT
from stacks.problems import Problem, Raw, RefusedError

PUBLIC = "platform"
"""The output that says where the tier is (schema.HandedOver)."""

READ = "pulumi:pulumi:readStackOutputs"
"""The engine's function; secrets that the caller's passphrase or key service does not open come back empty."""

Outputs = Mapping[str, Any]


def secret_output(owner: str) -> str:
    """Name the secret output that one admitted stack reads (schema.PlatformKeys)."""
    return f"admitted-{owner}"


def outputs_of(stack: str) -> Outputs:
    """Ask the engine for the outputs of another *stack* of the same backend. Raises RefusedError."""
    try:
        found: Outputs = pulumi.runtime.invoke(READ, {"name": stack}).value["outputs"]
    except Exception as error:  # noqa: BLE001 - the SDK raises no other
        said = str(error).rpartition("returned an error: ")[2]
        advice = "name it as <organization>/<project>/<stack>, `organization` in a file or bucket backend"
        raise _refused(f"{stack!r} cannot be read: {said}; {advice}") from None
    return found


def completed(raw: Raw, owner: str, read: Callable[[str], Outputs]) -> Raw:
    """Put in place of a ``platformStack`` that is a name what that stack says to *owner*.

    ``platformKeys`` that the stack file has stay: its operator need not be able to open the platform's secrets.
    Raises RefusedError.
    """
    name = raw.get("platformStack")
    if not isinstance(name, str):
        return raw
    outputs = read(name)
    public, keys = outputs.get(PUBLIC), outputs.get(secret_output(owner))
    if public is None:
        advice = f"run `up` there with {PROJECT}:platform, without a `server` elsewhere"
        raise _refused(f"{name!r} has no output {PUBLIC!r}, so that nobody knows its tier; {advice}")
    if keys is None:
        advice = f"add {owner!r} to {PROJECT}:platform.admits of that stack and run `up` there first"
        raise _refused(f"{name!r} does not admit stack {owner!r}; {advice}")
    return {"platformKeys": keys, **raw, "platformStack": public} if keys else {**raw, "platformStack": public}


def _refused(message: str) -> RefusedError:
    return RefusedError([Problem("platformStack", message)])
