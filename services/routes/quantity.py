"""Kubernetes' quantities, such as ``200Gi``."""

import re
from decimal import Decimal

_SUFFIXES = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)},
}
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([kMGTPE]|[KMGTPE]i)?")


def bytes_of(text: str) -> int | None:
    """Give the whole bytes that *text* says; None where it says no size."""
    match = _QUANTITY.fullmatch(text)
    return int(Decimal(match[1]) * _SUFFIXES[match[2] or ""]) if match else None
