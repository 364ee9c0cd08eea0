"""What a stack file says of how a storage is filled: by an image of the user's, from another storage, by download."""

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StrictBool, model_validator

from components.model import Image, Model, Name, Quantity, Whole, matching

MOST_FILES = 64
"""Of one download: the list is one argument of a program, which the kernel lets be 128 KiB long."""

LONGEST_URL = 1024

MARKER_FOLDER = ".gpu-runtime"
"""In the volume's root: the marker of what it was prepared with."""

SEGMENT = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._+=@,-]{1,120}"
"""One name of a path: never `.` or `..`."""


class PrepareBase(Model):
    """What every way of filling a volume has."""

    revision: Annotated[Whole, Field(ge=0)] = 0
    """Another number runs the same again."""
    cpu: Quantity = "1"
    memory: Quantity = "2Gi"
    timeout_seconds: Annotated[Whole, Field(ge=1, le=86400)] = 3600


class ImagePrepare(PrepareBase):
    """Fill the volume by running a command of an image, with the volume at /workspace."""

    kind: Literal["image"]
    image: Image
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    args: tuple[str, ...] = ()


class StoragePrepare(PrepareBase):
    """Copy what another storage of the tenant has, when that is prepared itself."""

    kind: Literal["storage"]
    source: Name = Field(alias="from")
    filled: StrictBool = False
    """True: the source has no `prepare`; what is in it came from units."""
    memory: Quantity = "1Gi"


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname or not value.isascii() or not value.isprintable():
        raise ValueError("must be an address such as https://example.com/data.tar")
    if " " in value or parts.fragment:
        raise ValueError("must have neither a blank nor a fragment (#); write a blank as %20")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must hold no user and no password: a stack file's download is open to all who see its Job")
    return value


Url = Annotated[str, Field(max_length=LONGEST_URL), AfterValidator(_url)]
Sha256 = Annotated[str, matching(re.compile(r"[0-9a-f]{64}"), "must be 64 lower-case hexadecimal digits")]
FilePath = Annotated[
    str,
    Field(max_length=512),
    matching(
        re.compile(rf"(?!\{MARKER_FOLDER}(?:/|$))(?:{SEGMENT})(?:/{SEGMENT})*"),
        f"must be a path within the volume such as data/train.tar: letters, digits, . _ + = @ , - and no .. in it, "
        f"and not {MARKER_FOLDER}",
    ),
]


class FileSpec(Model):
    """One file to download; over http or https, its digest decides what it is."""

    url: Url
    sha256: Sha256
    path: FilePath


class HttpPrepare(PrepareBase):
    """Download files, each with its digest; what was cut off goes on where it stopped."""

    kind: Literal["http"]
    files: Annotated[tuple[FileSpec, ...], Field(min_length=1, max_length=MOST_FILES)]
    memory: Quantity = "256Mi"

    @model_validator(mode="after")
    def _paths_differ(self) -> Self:
        paths = [file.path for file in self.files]
        if twice := sorted({path for path in paths if paths.count(path) > 1}):
            raise ValueError(f"files has {', '.join(twice)} twice; give each file a path of its own")
        folders = {path for path in paths for other in paths if other.startswith(f"{path}/")}
        if folders:
            raise ValueError(f"files has {', '.join(sorted(folders))} as a file and as a folder; rename one")
        return self


Prepare = Annotated[ImagePrepare | StoragePrepare | HttpPrepare, Field(discriminator="kind")]
