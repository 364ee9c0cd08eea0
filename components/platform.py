"""What the parts of the platform share: its namespace, and the plain form of its pods, Services and Secrets."""

from collections.abc import Mapping

import pulumi

from components import names
from components.kube import SKIP_AWAIT, metadata
from components.model import Manifest
from policy.baseline import NAMESPACE_LABELS, PLATFORM_LABEL, POD_DEFAULTS, pod_security

UID = 65532
"""The uid of our own images: nobody on the node, and not one that user images know."""

FINGERPRINT = f"{names.PROJECT}/inputs"
"""Pod annotation that changes with what the pod reads only at its start."""

SERVICE_ACCOUNT = "platform"


LIVENESS: Manifest = {"periodSeconds": 10, "failureThreshold": 6}
"""Of a liveness probe: who has not answered for a minute is started again; a busy one answers within that."""


def labels(owner: str, component: str, instance: str) -> names.Labels:
    """Give the labels of an object of the platform."""
    return names.labels(owner=owner, component=component, instance=instance)


def namespace(owner: str, name: str = names.PLATFORM_NAMESPACE) -> Manifest:
    """Build one of the platform's namespaces."""
    key, value = PLATFORM_LABEL
    worn = {**labels(owner, "platform", names.PROJECT), key: value, **NAMESPACE_LABELS}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(name, None, worn)}


def service_account(owner: str, name: str = SERVICE_ACCOUNT) -> Manifest:
    """Build the account that the platform's pods run under; it holds no right and mounts no token."""
    meta = metadata(name, names.PLATFORM_NAMESPACE, labels(owner, "platform", names.PROJECT))
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "automountServiceAccountToken": False}


def secret(owner: str, component: str, files: Mapping[str, pulumi.Input[str]]) -> Manifest:
    """Build the Secret with the files of *component*."""
    meta = metadata(component, names.PLATFORM_NAMESPACE, labels(owner, component, component))
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "stringData": dict(files)}


def secret_volume(name: str, secret_name: str) -> Manifest:
    """Build a volume of a Secret, readable by the pod's group alone."""
    return {"name": name, "secret": {"secretName": secret_name, "defaultMode": 0o440}}


def deployment(
    worn: names.Labels,
    replicas: int,
    container: Manifest,
    volumes: list[Manifest],
    inputs: str,
    **pod_fields: object,
) -> Manifest:
    """Build a Deployment of one container, named like its instance; other *inputs* roll it; *pod_fields* are added."""
    name = worn["app.kubernetes.io/instance"]
    pod = {
        **POD_DEFAULTS,
        "serviceAccountName": SERVICE_ACCOUNT,
        "securityContext": pod_security(UID, UID),
        "containers": [container],
        "volumes": volumes,
        **pod_fields,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name, names.PLATFORM_NAMESPACE, worn),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": names.selector(worn[names.COMPONENT_LABEL], name)},
            "template": {"metadata": {"labels": dict(worn), "annotations": {FINGERPRINT: inputs}}, "spec": pod},
        },
    }


def service(worn: names.Labels, port: int) -> Manifest:
    """Build the Service inside the cluster of one instance."""
    name = worn["app.kubernetes.io/instance"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, names.PLATFORM_NAMESPACE, worn, SKIP_AWAIT),
        "spec": {
            "type": "ClusterIP",
            "selector": names.selector(worn[names.COMPONENT_LABEL], name),
            "ports": [{"name": "tls", "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }


def budget(owner: str, component: str) -> Manifest:
    """Let a drain take one pod of *component* at a time; a pod that is broken anyway never blocks one."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(component, names.PLATFORM_NAMESPACE, labels(owner, component, component)),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": names.component_selector(component)},
        },
    }
