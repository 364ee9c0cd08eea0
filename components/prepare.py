"""The job that fills a storage once, before anything that depends on the storage starts."""

from components import names
from components.bundle import BUNDLE_DIR, NO_GPU, PREPARE, copy_container, mount
from components.bundle import VOLUME as BUNDLE_VOLUME
from components.kube import metadata
from components.model import Manifest, Resources
from components.prepare_spec import ImagePrepare
from components.storage_spec import Storage
from policy.baseline import POD_DEFAULTS, container_security, pod_security

WORKSPACE = "/workspace"
SCRATCH_SIZE = "1Gi"
"""For /tmp of the prepare command; data belongs in the volume."""

PREPARE_ATTEMPTS = 2
"""Retries of a failed prepare: a registry or a network that blinked; what fails three times will fail again."""


def prepare_job(storage: Storage, prepare: ImagePrepare) -> Manifest:
    """Run once per content: the Job's name says what it does, and a marker in the volume ends a second run at once."""
    labels = storage.labels("prepare")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(storage.job, storage.namespace, labels),
        "spec": {
            "backoffLimit": PREPARE_ATTEMPTS,
            "activeDeadlineSeconds": prepare.timeout_seconds,
            "template": {"metadata": {"labels": labels}, "spec": _prepare_pod(storage, prepare)},
        },
    }


def _prepare_pod(storage: Storage, prepare: ImagePrepare) -> Manifest:
    run_as = storage.spec.run_as
    return {
        **POD_DEFAULTS,
        **storage.placement.manifest,
        "serviceAccountName": names.TENANT_SERVICE_ACCOUNT,
        "restartPolicy": "Never",
        "securityContext": pod_security(run_as.uid, run_as.gid),
        "initContainers": [copy_container(storage.bundle_image)],
        "containers": [_prepare_container(storage, prepare)],
        "volumes": [
            dict(BUNDLE_VOLUME),
            {"name": "tmp", "emptyDir": {"sizeLimit": SCRATCH_SIZE}},
            {"name": "workspace", "persistentVolumeClaim": {"claimName": names.claim(storage.name)}},
        ],
    }


def _prepare_container(storage: Storage, prepare: ImagePrepare) -> Manifest:
    return {
        "name": "prepare",
        "image": storage.prepare_image,
        "imagePullPolicy": "IfNotPresent",
        "command": PREPARE,
        "args": [*prepare.command, *prepare.args],
        "workingDir": WORKSPACE,
        "env": [{"name": "GPU_RUNTIME_PREPARE_DIGEST", "value": storage.digest}, NO_GPU],
        "resources": Resources(cpu=prepare.cpu, memory=prepare.memory).requirements(),
        "securityContext": container_security(read_only_root=False),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            mount("bundle", BUNDLE_DIR, read_only=True),
            mount("tmp", "/tmp"),  # noqa: S108 - a mount path inside the container
            mount("workspace", WORKSPACE),
        ],
    }
