"""How much each unit may send and take: a file with a word for frps, read anew for each request as the keys are."""

import re
from pathlib import Path

from gate.keys import KeyFileError

UNLIMITED = "none"

LIMIT = re.compile(r"[1-9][0-9]{0,4}MB")
"""In frp's words, where MB are 2^20 bytes in a second."""


def read_bandwidth(path: Path | None) -> str | None:
    """Read the limit of each unit, or None where there is none.

    Raises:
        KeyFileError: the file is missing or says neither; nobody knows then what may be announced.

    """
    if path is None:
        return None
    try:
        said = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(f"{path}: {error}") from None
    if said != UNLIMITED and not LIMIT.fullmatch(said):
        raise KeyFileError(f"{path}: must be {UNLIMITED} or a limit such as 100MB")
    return None if said == UNLIMITED else said
