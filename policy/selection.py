"""Decide whether a label selector finds a pod; what cannot be decided before the deployment finds nothing."""

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
    },
)
"""Set by Kubernetes' own controllers: that a template lacks one says nothing about its pods."""


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
    labels = any(isinstance(wanted.value, str) for _, wanted in selector["matchLabels"].pairs())
    return labels or any(_asks(expression) for expression in selector["matchExpressions"].each())


def _asks(expression: Field) -> bool:
    if not isinstance(expression["key"].value, str):
        return False
    if expression["operator"].value == "Exists":
        return True
    values = [value.value for value in expression["values"].each()]
    return expression["operator"].value == "In" and bool(values) and all(isinstance(value, str) for value in values)


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
