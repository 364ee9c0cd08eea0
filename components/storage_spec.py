"""What a storage is: as a stack file says it, and with everything around it resolved."""

import hashlib
import json
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, StrictBool

from components import names
from components.browser_spec import Browser
from components.bundle import Bundle
from components.model import Model, Quantity, RunAs
from components.prepare_spec import HttpPrepare, ImagePrepare, Prepare, StoragePrepare
from components.storage_placement import ANYWHERE, PlacementSpec, PodPlacement

AccessMode = Literal["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"]

DIGEST_LENGTH = 16


class StorageSpec(Model):
    """What a stack file says of a storage."""

    size: Quantity
    storage_class: str | None = Field(default=None, alias="class", min_length=1)
    access_mode: AccessMode | None = None
    run_as: RunAs = RunAs()
    prepare: Prepare | None = None
    placement: PlacementSpec | None = None
    """None: where the units run that mount it."""
    browser: Browser = None
    delete_with_stack: StrictBool = False
    protect: StrictBool = False
    """True: neither a destroyed stack nor a storage that has left the stack file takes the claim out of the stack."""


@dataclass(frozen=True)
class Source:
    """The storage that another one is copied from."""

    name: str
    placement: PodPlacement = ANYWHERE
    """Of its own pods."""
    shown: bool = False
    """Whether a browser has its volume, which one node at a time can mount."""


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
    bundle: Bundle
    prepare_image: str | None
    """None: nothing fills it."""
    placement: PodPlacement = ANYWHERE
    browser_image: str | None = None
    source: Source | None = None
    """None: it is no copy."""
    running: tuple[str, ...] = ()
    """The units that mount it and are to run."""
    resting: tuple[str, ...] = ()
    """Those that mount it and are not: `running: false`."""

    @property
    def alias(self) -> str:
        """Give ``<storage>.<tenant>``."""
        return f"{self.name}.{self.tenant}"

    @property
    def shown(self) -> bool:
        """Say whether a browser has its volume, which one node at a time can mount."""
        return self.spec.browser is not None and self.access_mode == "ReadWriteOnce"

    @property
    def digest(self) -> str:
        """Name the content: it changes when, and only when, another content is described, or another revision of it."""
        prepare = self.spec.prepare
        if prepare is None:
            return ""
        revision = (prepare.revision,) if prepare.revision else ()
        return _digest(*_content(prepare, self.prepare_image), *revision)

    @property
    def job(self) -> str:
        """Name the Job by the content alone: whatever else is said anew of a prepared storage runs nothing again."""
        return names.prepare_job(self.name, self.digest)

    def labels(self, component: str) -> names.Labels:
        """Give the labels of one of the storage's objects."""
        return names.labels(owner=self.owner, component=component, instance=self.name, tenant=self.tenant)


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGEST_LENGTH]


def _content(prepare: Prepare, image: str | None) -> tuple[object, ...]:
    """Give what makes the content; a file is its digest and its place, a copy the name of its source.

    What a source holds is no part of it: its units may change that at any time, and nobody would know.
    """
    match prepare:
        case ImagePrepare():
            return image, prepare.command, prepare.args
        case StoragePrepare():
            return prepare.kind, prepare.source
        case HttpPrepare():
            return prepare.kind, [[file.path, file.sha256] for file in prepare.files]
