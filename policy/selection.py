"""Decide whether a label selector finds a pod; what cannot be decided before the deployment finds nothing."""

from collections.abc import Iterator
from typing import Final

from policy.field import Field
from policy.plain import UNKNOWN

RUNTIME_LABELS: Final = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/job-name",
        "controller-revision-hash",
        "controller-uid",
        "job-name",
        "pod-template-generation",
        "pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    },
)
"""Set by Kubernetes itself, controllers and API server: that a template lacks one says nothing about its pods."""


def selects(selector: Field, labels: Field) -> bool:
    """Say whether *selector* surely finds pods that carry *labels*; an empty or absent selector finds every pod."""
    return all(_carries(labels, key, wanted) for key, wanted in selector["matchLabels"].pairs()) and all(
        _holds(expression, labels) for expression in selector["matchExpressions"].each()
    )


def breadth(selector: Field) -> int:
    """Return the number of demands of *selector*: those with few are tried first."""
    return sum(1 for _ in selector["matchLabels"].pairs()) + sum(1 for _ in selector["matchExpressions"].each())


def names_some(selector: Field) -> bool:
    """Say whether *selector* surely asks for a label that is there; what only says what is not there finds the rest."""
    return names_by_value(selector) or any(_exists(expression) for expression in selector["matchExpressions"].each())


def names_by_value(selector: Field, key: str | None = None) -> bool:
    """Say whether *selector* surely asks for a value of a label; of the label *key*, if given."""
    return any(key in (None, asked) for asked in _valued(selector))


def _valued(selector: Field) -> Iterator[str]:
    """Yield the labels of which one value, or one of a list, is asked for."""
    yield from (key for key, wanted in selector["matchLabels"].pairs() if isinstance(wanted.value, str))
    yield from (item["key"].value for item in selector["matchExpressions"].each() if _lists(item))


def _exists(expression: Field) -> bool:
    return isinstance(expression["key"].value, str) and expression["operator"].value == "Exists"


def _lists(expression: Field) -> bool:
    values = [value.value for value in expression["values"].each()]
    known = all(isinstance(value, str) for value in (expression["key"].value, *values))
    return known and expression["operator"].value == "In" and bool(values)


def _carries(labels: Field, key: str, wanted: Field) -> bool:
    return isinstance(wanted.value, str) and labels[key].value == wanted.value


def _holds(expression: Field, labels: Field) -> bool:
    key, values = expression["key"].value, [value.value for value in expression["values"].each()]
    label = labels[key].value if isinstance(key, str) else UNKNOWN
    if UNKNOWN in (label, *values):
        return False
    absent = label is None and key not in RUNTIME_LABELS
    match expression["operator"].value:
        case "In":
            return label is not None and label in values
        case "NotIn":
            return absent or (label is not None and label not in values)
        case "Exists":
            return label is not None
        case operator:
            return operator == "DoesNotExist" and absent
