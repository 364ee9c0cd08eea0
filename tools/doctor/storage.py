"""Storage classes: whether those that the stack's storages use are there, and what they can do."""

from collections.abc import Iterable, Iterator

from lightkube.resources.storage_v1 import StorageClass

from components.cluster_storage import DEFAULT_ANNOTATIONS
from stacks.resolve import Stack
from tools.doctor.facts import Facts
from tools.doctor.findings import Finding, fail, ok, warn

CHECK = "storage class"


def storage(stack: Stack, facts: Facts) -> Iterator[Finding]:
    """Judge each class that a storage of the stack names, the default where one names none."""
    if facts.storage_classes is None:
        yield warn(CHECK, "you may not list storageclasses", "see that those of the stack file are there")
        return
    wanted = sorted({storage.storage_class or "" for storage in stack.storages.values()})
    if not wanted:
        yield ok(CHECK, "the stack has no storage")
    for name in wanted:
        yield _judged(name, facts.storage_classes)


def _judged(name: str, classes: Iterable[StorageClass]) -> Finding:
    known = {one.metadata.name or "": one for one in classes if one.metadata}
    there = ", ".join(sorted(known)) or "none"
    if name:
        found = known.get(name)
        return _able(name, found) if found else fail(CHECK, f"{name} is not there", f"use one of: {there}")
    defaults = [key for key, one in sorted(known.items()) if _is_default(one)]
    if not defaults:
        return fail(CHECK, "the cluster has no default", f"set gpu-runtime:storage.class to one of: {there}")
    if len(defaults) > 1:
        said = f"{len(defaults)} are marked as default: {', '.join(defaults)}"
        return warn(CHECK, said, "name one in gpu-runtime:storage.class")
    return _able(f"{defaults[0]} (the default)", known[defaults[0]])


def _able(name: str, found: StorageClass) -> Finding:
    mode = found.volumeBindingMode or "Immediate"
    said = f"{name}, by {found.provisioner}, binds {mode}, {'can' if found.allowVolumeExpansion else 'cannot'} grow"
    if mode == "Immediate":
        return warn(CHECK, said, "a volume may be made where no GPU node is: prefer WaitForFirstConsumer for zones")
    if not found.allowVolumeExpansion:
        return warn(CHECK, said, "sizes in the stack file are final: set allowVolumeExpansion where its driver can")
    return ok(CHECK, said)


def _is_default(found: StorageClass) -> bool:
    worn = (found.metadata.annotations if found.metadata else None) or {}
    return any(worn.get(key) == "true" for key in DEFAULT_ANNOTATIONS)
