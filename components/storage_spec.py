"""What a storage is: as a stack file says it, and with everything around it resolved."""

import hashlib
import json
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, StrictBool

from components import names
from components.browser_spec import Browser
from components.model import Model, Quantity, RunAs
from components.prepare_spec import ImagePrepare
from components.storage_placement import ANYWHERE, PlacementSpec, PodPlacement

AccessMode = Literal["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"]

DIGEST_LENGTH = 16


class StorageSpec(Model):
    """What a stack file says of a storage."""

    size: Quantity
    storage_class: str | None = Field(default=None, alias="class", min_length=1)
    access_mode: AccessMode | None = None
    run_as: RunAs = RunAs()
    prepare: ImagePrepare | None = None
    placement: PlacementSpec | None = None
    """None: where the units run that mount it."""
    browser: Browser = None
    delete_with_stack: StrictBool = False
    protect: StrictBool = False
    """True: neither a destroyed stack nor a storage that has left the stack file takes the claim out of the stack."""


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
    placement: PodPlacement = ANYWHERE
    browser_image: str | None = None

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
