"""The gate's keys: a file of hexadecimal lines, the newest first, the previous one below it while it is rotated out."""

import binascii
from pathlib import Path

from gate.capability import KEY_BYTES


class KeyFileError(Exception):
    """A file that answers follow from cannot be used; without it nothing is allowed."""


def read_keys(path: Path) -> tuple[bytes, ...]:
    """Read the keys, at least one, each at least 32 bytes.

    Read anew for each request: a mounted Secret changes by a swap of links, and the file is some 130 bytes in memory.

    Raises:
        KeyFileError: the file is missing, empty, not hexadecimal, or a key is too short; one bad line spoils it all.

    """
    try:
        lines = path.read_text(encoding="ascii").split()
        keys = tuple(binascii.unhexlify(line) for line in lines)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise KeyFileError(f"{path}: each line must be one key in hexadecimal") from None
    if not keys or min(map(len, keys)) < KEY_BYTES:
        raise KeyFileError(f"{path}: needs at least one key, each of {KEY_BYTES} bytes or more")
    return keys
