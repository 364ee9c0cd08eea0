"""A unit's pod: replace it as a rollout does, and read what its containers say."""

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

import httpx2
from lightkube import Client
from lightkube.resources.apps_v1 import Deployment
from lightkube.types import PatchType
from status.states import Phase

from components import cluster, names
from components.gpu_unit import Unit
from components.patience import Wait, doing
from components.survey import Judged, Place, states, survey
from components.unit_spec import seconds
from tools.shell import HEARTBEAT_SECONDS, ToolError, say

POLL_SECONDS = 0.5

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""What `kubectl rollout restart` writes into a pod template; the engine owns no such field, and leaves it alone."""


def restart(client: Client, unit: Unit) -> None:
    """Replace the unit's pod, the old one gone before the new one starts, and wait until the new one has arrived.

    Raises ToolError for a unit that does not run, and for one that does not come back.
    """
    before = look(client, unit).state.unit
    if before.phase in {Phase.ABSENT, Phase.STOPPED, Phase.STOPPING}:
        raise ToolError(f"unit {unit.alias} does not run ({before.text}): {before.message or before.reason}")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    patch = {"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: now}}}}}
    client.patch(Deployment, names.unit(unit.name), patch, namespace=unit.namespace, patch_type=PatchType.MERGE)
    say(f"unit {unit.alias}: {wait(unit, lambda: look(client, unit))}")


def wait(unit: Unit, again: Callable[[], Judged]) -> str:
    """Look *again* and again until the unit has arrived; say meanwhile what it does. Raises ToolError."""
    begun = time.monotonic()
    waiting = Wait(unit.alias, seconds(unit.spec.timeout), unit.spec.must_run, begun)
    last, said = "", begun
    while True:
        judged = again()
        outcome = waiting.look(judged.seen, judged.state, time.monotonic())
        if outcome and outcome.arrived:
            return f"{outcome.message} ({time.monotonic() - begun:.0f} s)"
        if outcome:
            raise ToolError(f"unit {unit.alias}: {outcome.message}")
        if doing(judged.state) != last or time.monotonic() - said > HEARTBEAT_SECONDS:
            last, said = doing(judged.state), time.monotonic()
            say(f"unit {unit.alias}: {last}")
        time.sleep(POLL_SECONDS)


def look(client: Client, unit: Unit) -> Judged:
    """Judge one unit by what the cluster says of it now."""
    place = Place(unit.namespace, unit.name)
    with cluster.answered():
        return next(states(client, survey(client, unit.owner, [unit.namespace]), [place]))


def show_logs(client: Client, unit: Unit, container: str, *, follow: bool) -> None:
    """Print what a container of the unit's pod said, its last run where it does not run now.

    Raises ToolError where there is nothing to read, with the reason.
    """
    judged = look(client, unit)
    pod = judged.seen.pod
    if pod is None:
        raise ToolError(f"unit {unit.alias} has no pod: {doing(judged.state)}")
    containers = [one["name"] for part in ("containers", "initContainers") for one in pod["spec"].get(part) or ()]
    if container not in containers:
        raise ToolError(f"unit {unit.alias} has no container {container!r}; it has {', '.join(containers)}")
    try:
        for line in client.log(pod["metadata"]["name"], namespace=unit.namespace, container=container, follow=follow):
            sys.stdout.write(line)
            sys.stdout.flush()
    except httpx2.HTTPStatusError as error:
        if error.response.status_code != httpx2.codes.BAD_REQUEST:
            raise
        raise ToolError(f"container {container} of {unit.alias} has said nothing yet: {doing(judged.state)}") from None
