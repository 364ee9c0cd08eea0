"""Whether policies are enforced, and since when in the life of a pod: measured by the probe, in walls that go again."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from lightkube import Client, codecs

from components import names
from components.model import Manifest
from components.probe import PROBE, probe_manifests
from components.tenant import tenant_manifests
from stacks.resolve import Stack
from tools.doctor.findings import Finding, fail, ok, warn
from tools.probe.fresh import Site, Verdict, refusal, wait
from tools.shell import ToolError

CHECK = "walls in use"
WINDOW = "start-up window"

MEASURE = "--window"
"""Argument of the probe: ask the API server's Service from the pod's first moment on."""


@dataclass(frozen=True)
class Trial:
    """A tenant that nobody else has, and the probe in its walls; *owner* names its namespace."""

    stack: Stack
    owner: str

    @cached_property
    def manifests(self) -> list[Manifest]:
        """Build the objects, the namespace first."""
        tenant = replace(self.stack.probe_tenant, owner=self.owner, namespace=names.probe_namespace(self.owner))
        targets = tuple(target for target in self.stack.probe.targets if _is_there(target))
        probe = probe_manifests(replace(self.stack.probe, owner=self.owner, targets=targets))
        for container in probe["job"]["spec"]["template"]["spec"]["containers"]:
            container["args"].append(MEASURE)
        return [*tenant_manifests(tenant).values(), *probe.values()]

    @property
    def namespace(self) -> Manifest:
        """Give the namespace, in the law of a tenant."""
        return self.manifests[0]

    @property
    def job(self) -> str:
        """Name the probe's Job."""
        return str(next(one["metadata"]["name"] for one in self.manifests if one["kind"] == "Job"))


def _is_there(target: Manifest) -> bool:
    """Leave out what is called by name, the stack's own Services: doctor comes before the first `up`."""
    host = str(target["host"])
    return host.startswith("$") or ":" in host or host.replace(".", "").isdigit()


def walls(client: Client, trial: Trial, context: str) -> Iterator[Finding]:
    """Run the probe in the namespace of *trial*, which is there already, and judge what it says."""
    for manifest in trial.manifests[1:]:
        client.create(codecs.from_dict(manifest))
    try:
        verdict = wait(client, Site(trial.owner, None, context), trial.job)
    except ToolError as error:
        advice = f"see that the image `{PROBE}` of gpu-runtime:images can be pulled, and that a pod finds room"
        yield fail(CHECK, str(error), advice)
        return
    yield from judged(verdict)


def judged(verdict: Verdict) -> Iterator[Finding]:
    """Judge the verdict of a probe that measured the start-up window too."""
    said = verdict.summary
    if verdict.status:
        found, _, advice = refusal(verdict).partition("; ")
        yield fail(CHECK, found, advice or "run `make walls-probe` for the table of all that was tried")
        return
    if said:
        yield ok(CHECK, f"enforced: {said['targets']} targets are as they should be")
        yield _window(max(said["answeredMs"] or 0, said["apiServerAnsweredMs"] or 0))
    else:
        yield ok(CHECK, "enforced: all targets are as they should be")
        yield warn(WINDOW, "not known: you may not read the logs of pods", "have somebody run doctor who may")


def _window(milliseconds: int) -> Finding:
    if not milliseconds:
        return ok(WINDOW, "none: nothing forbidden answered a new pod at any time")
    said = f"a new pod could still talk to forbidden targets for {milliseconds} ms"
    advice = "a plugin that holds pods back until their policies are in place closes it: docs/isolation.md"
    return warn(WINDOW, said, advice)
