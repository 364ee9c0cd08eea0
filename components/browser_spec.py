"""What a stack file says of a storage's browser: `true`, or a table."""

from typing import Annotated

from pydantic import BeforeValidator

from components.model import Model, Quantity


def _switch(value: object) -> object:
    """Read `true` as a table that says nothing, and `false` as no table."""
    if isinstance(value, bool):
        return {} if value else None
    if isinstance(value, str | int | float | list):
        raise ValueError("must be true, false, or a table of keys")  # noqa: TRY004 - pydantic reads this kind
    return value


class UploadSpec(Model):
    """Let people add files."""

    max_size: Quantity = "10Gi"
    """Of one request; a larger file comes in parts, each appended to what is there."""


class BrowserSpec(Model):
    """Show the files of a storage to the people of its tenant."""

    upload: Annotated[UploadSpec | None, BeforeValidator(_switch)] = None


Browser = Annotated[BrowserSpec | None, BeforeValidator(_switch)]
"""`browser: true`, `browser: {upload: true}`, `browser: {upload: {maxSize: 1Gi}}`."""
