"""A storage: one volume that outlives its stack, the job that fills it once, and the browser that shows it."""

from typing import Any

import pulumi

from components import names
from components.browser import browser_manifests
from components.filling import Filling
from components.kube import SKIP_AWAIT, metadata, register
from components.model import Manifest
from components.prepare import LAST_WORDS_SECONDS, prepare_job
from components.refill import UNASKED, Refill
from components.storage_spec import Storage
from components.storage_survey import StoragePlace

FIXED = ["spec.accessModes", "spec.storageClassName"]
"""Of a claim that is there: Kubernetes changes neither, and the engine would replace the claim, and lose its data.
That a stack file says otherwise is refused where the cluster is asked (stacks/claim_checks)."""

ENDING_SECONDS = 60
"""From a Job's deadline until its pod has ended, at most."""


def storage_manifests(storage: Storage) -> dict[str, Manifest]:
    """Build the objects of a storage."""
    return {**_data(storage), **browser_manifests(storage)}


def _data(storage: Storage) -> dict[str, Manifest]:
    claim = {"claim": _claim(storage)}
    return claim if storage.spec.prepare is None else {**claim, "prepare": prepare_job(storage, storage.spec.prepare)}


def _claim(storage: Storage) -> Manifest:
    """Ask for the volume; not waited for, since a class may bind at the first pod (and provider 4.25 waits in vain)."""
    spec: Manifest = {
        "accessModes": [storage.access_mode],
        "resources": {"requests": {"storage": storage.spec.size}},
    }
    if storage.storage_class is not None:
        spec["storageClassName"] = storage.storage_class
    protected = {names.PROTECT_ANNOTATION: "true"} if storage.spec.protect else {}
    shown = {names.SHOWN_ANNOTATION: "true"} if storage.spec.browser else {}
    said = {**SKIP_AWAIT, **protected, **shown, **_content(storage)}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(names.claim(storage.name), storage.namespace, storage.labels("storage"), said),
        "spec": spec,
    }


def _content(storage: Storage) -> dict[str, str]:
    prepare = storage.spec.prepare
    if prepare is None:
        return {}
    again = {names.REVISION_ANNOTATION: str(prepare.revision)} if prepare.revision else {}
    return {names.PREPARE_ANNOTATION: storage.job, **again}


class GPUStorage(pulumi.ComponentResource):
    """A volume, filled before anything that depends on this component starts."""

    claim: str
    filling: Filling | None = None
    """What `up` tells of while it waits, see filling."""

    def __init__(self, storage: Storage, opts: pulumi.ResourceOptions | None = None, refill: Refill = UNASKED) -> None:
        super().__init__(names.component_type("GPUStorage"), storage.alias, {"namespace": storage.namespace}, opts)
        keep = pulumi.ResourceOptions(
            retain_on_delete=not storage.spec.delete_with_stack,
            protect=storage.spec.protect,
            ignore_changes=FIXED,
            hooks=refill.guard(storage),
        )
        manifests = _data(storage)
        claim = register(storage.alias, {"claim": manifests.pop("claim")}, parent=self, options={"claim": keep})
        filling = {"prepare": _filling(storage, refill, claim["claim"])}
        data = {**claim, **register(storage.alias, manifests, parent=self, after=list(claim.values()), options=filling)}
        showing = {"browser": _showing(data["prepare"])} if "prepare" in data else None
        register(storage.alias, browser_manifests(storage), parent=self, after=list(data.values()), options=showing)
        self.claim = names.claim(storage.name)
        if "prepare" in data:
            place = StoragePlace(storage.namespace, storage.name)
            self.filling = Filling(storage.alias, place, self, data["prepare"])
        self.register_outputs({"claim": self.claim})


def _showing(job: pulumi.CustomResource) -> pulumi.ResourceOptions:
    """Have the browser away while the Job is made anew: what is shown is whole, and one node alone may mount it."""
    return pulumi.ResourceOptions(replace_with=[job], delete_before_replace=True)


def _filling(storage: Storage, refill: Refill, claim: pulumi.CustomResource) -> pulumi.ResourceOptions:
    """Wait for the Job a little longer than it may take, to hear why it failed; of one that is done, nothing counts.

    Save that its claim is another: what it has filled is gone then.
    """
    meta: pulumi.Output[Any] = getattr(claim, "metadata")  # noqa: B009 - `register` tells no kinds apart
    own = storage.spec.prepare.timeout_seconds if storage.spec.prepare else 0
    seconds = own + LAST_WORDS_SECONDS + ENDING_SECONDS
    return pulumi.ResourceOptions(
        custom_timeouts=pulumi.CustomTimeouts(create=f"{seconds}s", update=f"{seconds}s"),
        delete_before_replace=True,
        replacement_trigger=meta.apply(lambda said: said.uid),
        ignore_changes=["spec"] if refill.is_done(storage) else None,
        hooks=refill.clearing(storage),
    )
