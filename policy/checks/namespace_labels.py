"""The cluster itself refuses what program and pack have not seen."""

from collections.abc import Iterator

from policy.baseline import NAMESPACE_LABELS
from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object

ID = "namespace-labels"
SEVERITY = Severity.HIGH
DESCRIPTION = "Namespaces carry the labels of Pod Security admission at the level restricted."
REMEDIATION = "Spread policy.baseline.NAMESPACE_LABELS into the namespace's labels."
FRAMEWORKS = {Framework.GPU_RUNTIME: "namespace-labels"}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield labels that are missing or weaker."""
    if not thing.is_a("", "Namespace"):
        return
    for key, wanted in NAMESPACE_LABELS.items():
        label = thing.metadata["labels"][key]
        if label.value != wanted:
            yield label.refuse("namespace", f'set it to "{wanted}"')
