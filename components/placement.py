"""Where the pod of a unit may run, what pushes it out, and the GPUs that it claims there."""

import hashlib
import json

from components import names
from components.flavor import ClaimSpec, Flavor
from components.kube import metadata
from components.model import Manifest
from components.unit_spec import UnitSpec

CLAIM = "gpu"
"""Name of the claim within the pod, and of the one request within the claim."""


def placement(name: str, spec: UnitSpec, flavor: Flavor) -> Manifest:
    """Give what unit *name* adds to its pod's spec; nothing for a unit and a flavor that say nothing of it."""
    claim = {"name": CLAIM, "resourceClaimTemplateName": _template_name(name, flavor.claim)} if flavor.claim else None
    tolerations = sorted((toleration.manifest for toleration in flavor.tolerations), key=str)
    said: Manifest = {
        "nodeSelector": {**flavor.node_selector, **spec.node_selector},
        "tolerations": tolerations,
        "runtimeClassName": flavor.runtime_class,
        "priorityClassName": spec.priority_class or flavor.priority_class,
        "resourceClaims": [claim] if claim else [],
    }
    users = {"hostUsers": False} if spec.user_namespace else {}
    return {**{key: value for key, value in said.items() if value}, **users}


def claims(flavor: Flavor) -> tuple[str, ...]:
    """Name the claims of the pod that the unit's container holds."""
    return (CLAIM,) if flavor.claim else ()


def claim_template(name: str, namespace: str, labels: names.Labels, claim: ClaimSpec) -> Manifest:
    """Build the template from which Kubernetes makes a claim for each pod of unit *name*, and removes it with the pod.

    A claim by name would be one for two pods, the old and the new one, while a unit is replaced.
    """
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata(_template_name(name, claim), namespace, labels),
        "spec": {"spec": _claimed(claim)},
    }


def _template_name(name: str, claim: ClaimSpec) -> str:
    """Name it by its content: the API server lets nobody change a template."""
    content = json.dumps(_claimed(claim), sort_keys=True)
    return names.unit_claim(name, hashlib.sha256(content.encode()).hexdigest())


def _claimed(claim: ClaimSpec) -> Manifest:
    exactly = {"deviceClassName": claim.device_class, "allocationMode": "ExactCount", "count": claim.count}
    return {"devices": {"requests": [{"name": CLAIM, "exactly": exactly}]}}
