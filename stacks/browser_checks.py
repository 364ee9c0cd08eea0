"""Problems of what a stack file says of browsers."""

from collections.abc import Collection, Iterator, Mapping

from components.browser_spec import UploadSpec
from components.model import quantity
from components.storage_spec import StorageSpec
from stacks.problems import Problem

IMAGE = "dufs"
"""In the catalogue: what browsers run."""


def browser_image_problems(images: Collection[str], storages: Mapping[str, StorageSpec | None]) -> Iterator[Problem]:
    """Refuse browsers without their image; *storages* are a whole stack's, by ``<storage>.<tenant>``."""
    shown = sorted(alias for alias, spec in storages.items() if spec is not None and spec.browser is not None)
    if shown and IMAGE not in images:
        yield Problem(
            "images",
            f"lacks {IMAGE}, which the browsers of {', '.join(shown)} run; "
            "`make images PUSH=<registry>` builds it and prints lines",
        )


def browser_problems(path: str, spec: StorageSpec, access_mode: str) -> Iterator[Problem]:
    """Yield the problems of the browser of the storage at *path*, whose resolved mode is *access_mode*."""
    if spec.browser is None or spec.browser.upload is None:
        return
    if access_mode == "ReadOnlyMany":
        yield Problem(
            f"{path}.browser.upload", "cannot be: the storage is ReadOnlyMany; say `browser: true`, or ReadWriteMany"
        )
    yield from _limit(f"{path}.browser.upload.maxSize", spec, spec.browser.upload)


def _limit(path: str, spec: StorageSpec, said: UploadSpec) -> Iterator[Problem]:
    """Refuse a limit that was said and never holds; the default is cut to the storage by the volume itself."""
    if "max_size" in said.model_fields_set and quantity(said.max_size) > quantity(spec.size):
        yield Problem(path, f"{said.max_size} is more than the {spec.size} of the storage; nothing of that size fits")
