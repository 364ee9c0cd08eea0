"""A storage: one volume that outlives its stack, and the job that fills it once."""

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, Literal

import pulumi
from pydantic import Field, StrictBool

from components import names
from components.bundle import BUNDLE_DIR, NO_GPU, PREPARE, copy_container, mount
from components.bundle import VOLUME as BUNDLE_VOLUME
from components.kube import SKIP_AWAIT, metadata, register
from components.model import Image, Manifest, Model, Quantity, Resources, RunAs
from policy.baseline import POD_DEFAULTS, container_security, pod_security

AccessMode = Literal["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"]

WORKSPACE = "/workspace"
SCRATCH_SIZE = "1Gi"
"""For /tmp of the prepare command; data belongs in the volume."""

PREPARE_ATTEMPTS = 2
"""Retries of a failed prepare: a registry or a network that blinked; what fails three times will fail again."""

DIGEST_LENGTH = 16


class ImagePrepare(Model):
    """Fill the volume by running a command of an image, with the volume at /workspace."""

    kind: Literal["image"]
    image: Image
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    args: tuple[str, ...] = ()
    cpu: Quantity = "1"
    memory: Quantity = "2Gi"
    timeout_seconds: Annotated[int, Field(ge=1, le=86400)] = 3600


class StorageSpec(Model):
    """What a stack file says of a storage."""

    size: Quantity
    storage_class: str | None = Field(default=None, alias="class", min_length=1)
    access_mode: AccessMode | None = None
    run_as: RunAs = RunAs()
    prepare: ImagePrepare | None = None
    delete_with_stack: StrictBool = False


@dataclass(frozen=True)
class Storage:
    """A storage with everything around it resolved."""

    name: str
    tenant: str
    namespace: str
    owner: str
    spec: StorageSpec
    storage_class: str | None
    """None: the cluster's default class."""
    access_mode: AccessMode
    bundle_image: str
    prepare_image: str | None

    @property
    def alias(self) -> str:
        """Give ``<storage>.<tenant>``."""
        return f"{self.name}.{self.tenant}"

    @property
    def digest(self) -> str:
        """Name the content: it changes when, and only when, another content is described."""
        prepare = self.spec.prepare
        if prepare is None:
            return ""
        return _digest(self.prepare_image, prepare.command, prepare.args)

    @property
    def job(self) -> str:
        """Name the Job: another for another content, and for another way of making it, since a Job cannot change."""
        run_as = self.spec.run_as
        return names.prepare_job(self.name, _digest(self.digest, str(self.spec.prepare), run_as.uid, run_as.gid))

    def labels(self, component: str) -> names.Labels:
        """Give the labels of one of the storage's objects."""
        return names.labels(owner=self.owner, component=component, instance=self.name, tenant=self.tenant)


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGEST_LENGTH]


def storage_manifests(storage: Storage) -> dict[str, Manifest]:
    """Build the objects of a storage."""
    claim = {"claim": _claim(storage)}
    return claim if storage.spec.prepare is None else {**claim, "prepare": _prepare_job(storage, storage.spec.prepare)}


def _claim(storage: Storage) -> Manifest:
    """Ask for the volume; not waited for, since a class may bind at the first pod (and provider 4.25 waits in vain)."""
    spec: Manifest = {
        "accessModes": [storage.access_mode],
        "resources": {"requests": {"storage": storage.spec.size}},
    }
    if storage.storage_class is not None:
        spec["storageClassName"] = storage.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(names.claim(storage.name), storage.namespace, storage.labels("storage"), SKIP_AWAIT),
        "spec": spec,
    }


def _prepare_job(storage: Storage, prepare: ImagePrepare) -> Manifest:
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


class GPUStorage(pulumi.ComponentResource):
    """A volume, filled before anything that depends on this component starts."""

    claim: str

    def __init__(self, storage: Storage, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(names.component_type("GPUStorage"), storage.alias, {"namespace": storage.namespace}, opts)
        keep = pulumi.ResourceOptions(retain_on_delete=not storage.spec.delete_with_stack)
        seconds = storage.spec.prepare.timeout_seconds if storage.spec.prepare else 0
        wait = pulumi.ResourceOptions(
            custom_timeouts=pulumi.CustomTimeouts(create=f"{seconds}s", update=f"{seconds}s"),
            delete_before_replace=True,
            ignore_changes=["spec"],  # what the user says is in the name; a new bundle is no reason to run again
        )
        register(storage.alias, storage_manifests(storage), parent=self, options={"claim": keep, "prepare": wait})
        self.claim = names.claim(storage.name)
        self.register_outputs({"claim": self.claim})
