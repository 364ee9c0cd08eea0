"""A field that Kubernetes does not know is dropped, and whoever wrote it believes in it."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Object
from policy.vocabulary import Oddity, meant, oddities, type_of

ID = "unknown-fields"
SEVERITY = Severity.HIGH
DESCRIPTION = "Built-in kinds hold only the fields that Kubernetes has, spelled as Kubernetes spells them, once."
REMEDIATION = "Correct the spelling (camelCase), or remove the field."
FRAMEWORKS = {Framework.GPU_RUNTIME: "unknown-fields"}


def violations(thing: Object) -> Iterator[Finding]:
    """Yield misspelt and invented fields, and whole parts that are malformed or not known."""
    api_version = thing.api_version.value
    type_name = type_of(api_version, thing.kind) if isinstance(api_version, str) else None
    if type_name is not None:
        for oddity in oddities(thing.root, type_name):
            yield _misspelt(oddity) if oddity.is_key else _shapeless(oddity)


def _misspelt(oddity: Oddity) -> Finding:
    field, name = oddity.field, oddity.type_name.rpartition(".")[2]
    intended = meant(str(field.key), oddity.type_name)
    advice = f"did you mean {intended}?" if intended else "remove it"
    siblings = field.parent.value if field.parent else {}
    twice = f" {intended} is there too, and one of them would be lost" if intended in siblings else ""
    return Finding(field.path, f"{name} has no field {field.key}: {advice}{twice}")


def _shapeless(oddity: Oddity) -> Finding:
    name = oddity.type_name.rpartition(".")[2]
    return Finding(oddity.field.path, f"{name} is malformed or not known before the deployment; write it out")
