"""The Job that fills a storage once, before anything that depends on the storage starts."""

import json
from dataclasses import replace

from components import names
from components.bundle import NO_GPU, PREPARE, RSYNC, mount
from components.kube import metadata
from components.model import Manifest, Resources
from components.prepare_spec import HttpPrepare, ImagePrepare, Prepare, StoragePrepare
from components.storage_placement import ANYWHERE, PodPlacement, node_of
from components.storage_spec import Storage
from policy.baseline import POD_DEFAULTS, container_security, pod_security

WORKSPACE = "/workspace"
SOURCE = "/source"
"""Where a copy finds what it copies, read-only."""

SCRATCH_SIZE = "1Gi"
"""For /tmp of the prepare command; data belongs in the volume."""

PREPARE_ATTEMPTS = 2
"""Retries of a failed prepare: a registry or a network that blinked; what fails three times will fail again."""

LAST_WORDS_SECONDS = 60
"""From the end of a try's time to that of its Job, which takes pods along; one that has ended by then keeps its
last lines. Longer than a program may take to end (30 s)."""

REPLACE_FAILED = {"pulumi.com/replaceUnready": "true"}
"""Annotation: a Job that failed is made anew by the next `up`, which else would find it failed for ever."""

TAKEN_AWAY: Manifest = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
"""A pod that was drained from its node counts as no failure: its successor goes on."""

OWN_PROGRAM = ("python3", "-P", "-s", "-m", "prepare")
"""Of our own image (services/prepare); -P and -s: no module from the volume or from a home."""


def prepare_job(storage: Storage, prepare: Prepare) -> Manifest:
    """Run once per content: the Job's name says what it does, and a marker in the volume ends a second run at once.

    A pod's successor waits until it has ended: two would write into one volume.
    """
    labels = storage.labels("prepare")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(storage.job, storage.namespace, labels, REPLACE_FAILED),
        "spec": {
            "backoffLimit": PREPARE_ATTEMPTS,
            "activeDeadlineSeconds": prepare.timeout_seconds + LAST_WORDS_SECONDS,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [TAKEN_AWAY]},
            "template": {"metadata": {"labels": labels}, "spec": _prepare_pod(storage, prepare)},
        },
    }


def _prepare_pod(storage: Storage, prepare: Prepare) -> Manifest:
    run_as = storage.spec.run_as
    return {
        **POD_DEFAULTS,
        **_placed(storage),
        "activeDeadlineSeconds": prepare.timeout_seconds,
        "serviceAccountName": names.TENANT_SERVICE_ACCOUNT,
        "restartPolicy": "Never",
        "securityContext": pod_security(run_as.uid, run_as.gid),
        "initContainers": storage.bundle.begin,
        "containers": [_prepare_container(storage, prepare)],
        "volumes": [
            storage.bundle.volume,
            {"name": "tmp", "emptyDir": {"sizeLimit": SCRATCH_SIZE}},
            {"name": "workspace", "persistentVolumeClaim": {"claimName": names.claim(storage.name)}},
            *_source_volume(storage),
        ],
    }


def _source_volume(storage: Storage) -> list[Manifest]:
    """Give the volume that is copied, as one that nobody writes: the kubelet then leaves its group alone, too."""
    if storage.source is None:
        return []
    return [
        {"name": "source", "persistentVolumeClaim": {"claimName": names.claim(storage.source.name), "readOnly": True}}
    ]


def _placed(storage: Storage) -> Manifest:
    """Place the pod like the storage, and where one node alone can mount a volume, on that.

    Who has its own volume is there only where the Job was deleted by hand, or where none was before. The source's is
    asked for: elsewhere the pod could not start.
    """
    source = storage.source.placement if storage.source else ANYWHERE
    own = _holder(storage.name, storage.placement, shown=storage.shown)
    needed = _holder(storage.source.name, source, shown=storage.source.shown) if storage.source else []
    if source.beside in storage.running:
        # without a pod that unit waits for this very copy, and with one it has the source until the copy is there
        own, needed = [*own, *(one for one in needed if one not in own)], []
    wanted = [{"weight": 100, "podAffinityTerm": one} for one in own]
    terms = {
        "requiredDuringSchedulingIgnoredDuringExecution": needed,
        "preferredDuringSchedulingIgnoredDuringExecution": wanted,
    }
    said = {how: which for how, which in terms.items() if which}
    more = tuple(one for one in source.tolerations if one not in storage.placement.tolerations)
    placed = replace(storage.placement, tolerations=(*storage.placement.tolerations, *more)).manifest
    return {**placed, **({"affinity": {"podAffinity": said}} if said else {})}


def _holder(name: str, placement: PodPlacement, *, shown: bool) -> list[Manifest]:
    """Name the node of who has a volume of one node: its unit, beside which its browser is, or that alone."""
    if placement.beside:
        return [node_of("unit", placement.beside)]
    return [node_of("browser", name)] if shown else []


def _prepare_container(storage: Storage, prepare: Prepare) -> Manifest:
    source = [mount("source", SOURCE, read_only=True)] if storage.source else []
    return {
        "name": "prepare",
        "image": storage.prepare_image,
        "imagePullPolicy": "IfNotPresent",
        "command": PREPARE,
        "args": _command(prepare),
        "workingDir": WORKSPACE,
        "env": [{"name": "GPU_RUNTIME_PREPARE_DIGEST", "value": storage.digest}, NO_GPU],
        "resources": Resources(cpu=prepare.cpu, memory=prepare.memory).requirements(),
        "securityContext": container_security(read_only_root=not isinstance(prepare, ImagePrepare)),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            storage.bundle.mount,
            mount("tmp", "/tmp"),  # noqa: S108 - a mount path inside the container
            mount("workspace", WORKSPACE),
            *source,
        ],
    }


def _command(prepare: Prepare) -> list[str]:
    match prepare:
        case ImagePrepare():
            return [*prepare.command, *prepare.args]
        case StoragePrepare():
            return [*OWN_PROGRAM, "copy", f"--rsync={RSYNC}", SOURCE, WORKSPACE]
        case HttpPrepare():
            files = [file.model_dump() for file in prepare.files]
            return [*OWN_PROGRAM, "fetch", json.dumps(files, separators=(",", ":")), WORKSPACE]
