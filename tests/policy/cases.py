"""What the tests of the law share: the fixtures beside the checks, and the smallest pod that breaks nothing."""

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from policy import baseline
from policy.check import Check
from policy.checks import ALL
from policy.law import Violation, judge

CHECKS = Path(__file__).parents[2] / "policy" / "checks"
FIXTURES = CHECKS / "fixtures"
BY_FOLDER: dict[str, Check] = {check.ID.replace("-", "_"): check for check in ALL}


class Case(NamedTuple):
    """One fixture file."""

    check: Check
    file: Path
    documents: list[Any]

    @property
    def expected(self) -> list[tuple[str, str]]:
        """Return check and message of the documents that say what they expect."""
        return [(self.check.ID, message) for document in self.documents for message in _expectations(document)]


def cases(verdict: str) -> list[Case]:
    """Return the fixtures that are to *verdict*: `pass` or `fail`."""
    files = sorted(FIXTURES.glob(f"*/{verdict}-*.yaml"))
    return [Case(BY_FOLDER[file.parent.name], file, list(yaml.safe_load_all(file.read_text()))) for file in files]


def name(case: Case) -> str:
    """Return the case as pytest shows it."""
    return f"{case.file.parent.name}/{case.file.stem}"


def said(violations: list[Violation]) -> list[tuple[str, str]]:
    """Return check and message of each violation."""
    return [(violation.check, violation.message) for violation in violations]


def pod(**spec: Any) -> dict[str, Any]:
    """Return a pod that wears the baseline, with *spec* on top."""
    container = {
        "name": "main",
        "image": "registry.example/app:1.0",
        "securityContext": baseline.container_security(),
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    }
    worn = {**baseline.POD_DEFAULTS, "securityContext": baseline.pod_security(1000, 1000), "containers": [container]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sample", "namespace": "lab-a"},
        "spec": {**worn, **spec},
    }


def walls(namespace: str = "lab-a") -> dict[str, Any]:
    """Return the policy that denies everything in *namespace*."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "walls", "namespace": namespace},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    }


def obeys(*manifests: Any) -> bool:
    """Say whether *manifests* break nothing."""
    return judge(manifests) == []


def _expectations(document: Any) -> list[str]:
    if document["kind"] == "List":
        return [message for item in document["items"] for message in _expectations(item)]
    annotations = document["metadata"].get("annotations", {})
    return [annotations["expect"]] if "expect" in annotations else []
