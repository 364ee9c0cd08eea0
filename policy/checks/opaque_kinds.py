"""What the law cannot look into may hold anything."""

from collections.abc import Iterator

from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.objects import Object
from policy.plain import UNKNOWN
from policy.vocabulary import type_of

ID = "opaque-kinds"
SEVERITY = Severity.CRITICAL
DESCRIPTION = "No object brings pods, or changes to pods, that the law cannot see."
REMEDIATION = "Write the pods out as a Deployment, StatefulSet, DaemonSet, Job or CronJob."
FRAMEWORKS = {Framework.GPU_RUNTIME: "opaque-kinds"}

OPAQUE = {
    ("helm.sh", "Release"): "a Helm release hides its objects; use helm.sh/v4 Chart, whose objects are judged",
    ("helm.toolkit.fluxcd.io", "HelmRelease"): "its objects are made in the cluster, unseen",
    ("helm.cattle.io", "HelmChart"): "its objects are made in the cluster, unseen",
    ("kustomize.toolkit.fluxcd.io", "Kustomization"): "its objects are made in the cluster, unseen",
    ("argoproj.io", "Application"): "its objects are made in the cluster, unseen",
    ("argoproj.io", "ApplicationSet"): "its objects are made in the cluster, unseen",
    ("kubernetes.crossplane.io", "Object"): "its object is made in the cluster, unseen",
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): "it changes pods after the law has judged them",
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): "it changes pods after the law has judged them",
    ("", "Binding"): "it moves a pod past the scheduler",
}
"""Kinds that escape the law by what they are -> why."""


def violations(thing: Object) -> Iterator[Finding]:
    """Yield objects without a kind, patches, kinds of `OPAQUE`, and foreign kinds that hold pods or may."""
    for key in ("apiVersion", "kind"):
        if not (isinstance(thing.root[key].value, str) and thing.root[key].value):
            yield thing.root[key].refuse("object", "say what it is")
    reason = OPAQUE.get((thing.group, thing.kind))
    if reason or thing.kind.endswith("Patch"):
        yield Finding("kind", f"{thing.kind}: {reason or 'it changes an object that the law has not seen'}")
    if thing.pod is not None:
        if not any(item.role == "container" and isinstance(item.field.value, dict) for item in thing.containers):
            yield thing.pod.spec["containers"].refuse(thing.pod.who, "write out what it runs")
    elif type_of(str(thing.api_version.value), thing.kind) is None:
        yield from _hidden(thing.root, thing.kind or "object")


def _hidden(field: Field, kind: str) -> Iterator[Finding]:
    if field.value is UNKNOWN:
        yield Finding(field.path, f"{kind}: {field.path} is not known before the deployment and may hold pods")
    elif isinstance(field.value, list):
        for item in field.each():
            yield from _hidden(item, kind)
    elif isinstance(field.value, dict):
        if _is_pod(field):
            yield Finding(field.path, f"{kind}: {field.path} holds containers that the law cannot judge in this kind")
            return
        for _, child in field.pairs():
            yield from _hidden(child, kind)


def _is_pod(field: Field) -> bool:
    """Say whether it holds a list of containers, or the single one of workflow engines."""
    listed = any(isinstance(item.value, dict) for item in field["containers"].each())
    return listed or isinstance(field["container"]["image"].value, str)
