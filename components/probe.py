"""The probe: a Job in the law and walls of a tenant, which fails where the walls do not hold (services/probe).

A network plugin may take every NetworkPolicy and enforce none. So no pod of a tenant starts before this Job was right,
and whenever the walls or the targets change it is another Job.
"""

import hashlib
import json
from dataclasses import dataclass

import pulumi

from components import names, platform
from components.bundle import mount
from components.kube import metadata, register
from components.model import Manifest, requirements
from policy.baseline import POD_DEFAULTS, container_security, pod_security

PROBE = "probe"

DEADLINE_SECONDS = 30
"""From a pod's start until its walls must stand; kube-router takes a second, a busy plugin some more."""

JOB_SECONDS = 300
"""For a pod to be placed, to pull its image and to try everything, and once more where it was taken away."""

TAKEN_AWAY: Manifest = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
"""A pod that was drained from its node is replaced; one that found holes fails the Job, with no second attempt. A rule
to that end would fail it for a reason that the Pulumi provider (4.25) takes for none, and waits on."""

RESOURCES = requirements({"cpu": "50m", "memory": "64Mi"}, {"cpu": "500m", "memory": "64Mi"})
"""22 MiB are used; a start-up window is measured better with a processor at hand."""

CONFIG_DIR = "/targets"
CONFIG_FILE = "targets.json"

REPLACE_FAILED = {"pulumi.com/replaceUnready": "true"}
"""Annotation: a Job that failed is made anew by the next `up`, which else would find it failed for ever."""

NODE_IP = {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}


@dataclass(frozen=True)
class ProbeSpec:
    """A probe with everything around it resolved."""

    owner: str
    image: str
    targets: tuple[Manifest, ...]
    walls: tuple[Manifest, ...]
    """Every policy of the stack: another one is another Job."""

    @property
    def labels(self) -> names.Labels:
        """Give the labels of the probe's objects and pod."""
        return names.labels(owner=self.owner, component=PROBE, instance=PROBE, tenant=names.PROBE_TENANT)

    @property
    def name(self) -> str:
        """Name the Job and its ConfigMap by the walls, the targets and the Job itself, which nothing can change."""
        walls = sorted(json.dumps([_place(policy), policy["spec"]], sort_keys=True) for policy in self.walls)
        said = json.dumps([walls, self.targets, _job(self, "")], sort_keys=True)
        return names.probe_job(hashlib.sha256(said.encode()).hexdigest())


def _place(policy: Manifest) -> list[str]:
    return [policy["kind"], policy["metadata"].get("namespace", ""), policy["metadata"]["name"]]


def probe_manifests(spec: ProbeSpec) -> dict[str, Manifest]:
    """Build the ConfigMap of the targets and the Job that tries them."""
    namespace = names.probe_namespace(spec.owner)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(spec.name, namespace, spec.labels)}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(spec.name, namespace, spec.labels, REPLACE_FAILED),
        "spec": _job(spec, spec.name),
    }
    return {"config": {**config, "data": {CONFIG_FILE: json.dumps(spec.targets, indent=1)}}, "job": job}


def _job(spec: ProbeSpec, config: str) -> Manifest:
    return {
        "backoffLimit": 0,
        "activeDeadlineSeconds": JOB_SECONDS,
        "podFailurePolicy": {"rules": [TAKEN_AWAY]},
        "template": {"metadata": {"labels": spec.labels}, "spec": _pod(spec.image, config)},
    }


def _pod(image: str, config: str) -> Manifest:
    return {
        **POD_DEFAULTS,
        "serviceAccountName": names.TENANT_SERVICE_ACCOUNT,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "securityContext": pod_security(platform.UID, platform.UID),
        "containers": [_container(image)],
        "volumes": [{"name": "targets", "configMap": {"name": config}}],
    }


def _container(image: str) -> Manifest:
    return {
        "name": PROBE,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [f"{CONFIG_DIR}/{CONFIG_FILE}", f"--deadline={DEADLINE_SECONDS}"],
        "env": [NODE_IP],
        "resources": RESOURCES,
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount("targets", CONFIG_DIR, read_only=True)],
    }


class Probe(pulumi.ComponentResource):
    """The proof that the walls hold; every pod of a tenant depends on it."""

    def __init__(self, spec: ProbeSpec, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(names.component_type("Probe"), PROBE, {"namespace": names.probe_namespace(spec.owner)}, opts)
        wait = pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create=f"{JOB_SECONDS}s"))
        manifests = probe_manifests(spec)
        config = register(PROBE, {"config": manifests["config"]}, parent=self)
        register(PROBE, {"job": manifests["job"]}, parent=self, after=list(config.values()), options={"job": wait})
        self.register_outputs({"job": spec.name})
