"""What a stack file says of how a storage is filled."""

from typing import Annotated, Literal

from pydantic import Field

from components.model import Image, Model, Quantity


class ImagePrepare(Model):
    """Fill the volume by running a command of an image, with the volume at /workspace."""

    kind: Literal["image"]
    image: Image
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    args: tuple[str, ...] = ()
    cpu: Quantity = "1"
    memory: Quantity = "2Gi"
    timeout_seconds: Annotated[int, Field(ge=1, le=86400)] = 3600
