"""What ours is measured against: the same objects through the same provider, and nothing else."""

import json
import os
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

CLASSES: dict[str, Any] = {
    "ConfigMap": k8s.core.v1.ConfigMap,
    "Deployment": k8s.apps.v1.Deployment,
    "LimitRange": k8s.core.v1.LimitRange,
    "Namespace": k8s.core.v1.Namespace,
    "NetworkPolicy": k8s.networking.v1.NetworkPolicy,
    "PodDisruptionBudget": k8s.policy.v1.PodDisruptionBudget,
    "ResourceQuota": k8s.core.v1.ResourceQuota,
    "Secret": k8s.core.v1.Secret,
    "Service": k8s.core.v1.Service,
    "ServiceAccount": k8s.core.v1.ServiceAccount,
}
ARGUMENTS = {"stringData": "string_data", "automountServiceAccountToken": "automount_service_account_token"}

given = json.loads(Path(os.environ["BENCH_MANIFESTS"]).read_text())
provider = k8s.Provider("cluster", **given["provider"])
for number, manifest in enumerate(given["manifests"]):
    del manifest["apiVersion"]
    said = {ARGUMENTS.get(key, key): value for key, value in manifest.items() if key != "kind"}
    CLASSES[manifest["kind"]](f"object-{number}", **said, opts=pulumi.ResourceOptions(provider=provider))
