"""Read Kubernetes quantities (`500m`, `8Gi`, `1e3`)."""

import re
from decimal import Decimal
from typing import Any, Final

_PATTERN: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i)?)")
_SCALE: Final = {
    **{suffix: Decimal(10) ** power for suffix, power in zip("num kMGTPE", range(-9, 19, 3), strict=False)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def quantity(value: Any) -> Decimal | None:
    """Return the number that *value* stands for; None when it is no quantity."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    match = _PATTERN.fullmatch(str(value))
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    return Decimal(number + (exponent or "")) * _SCALE.get(suffix or " ", Decimal(1))


def binary(kib: int) -> str:
    """Write *kib* KiB in the largest unit that keeps it whole, as the API writes it back."""
    for suffix in ("Ki", "Mi", "Gi"):
        if kib % 1024:
            return f"{kib}{suffix}"
        kib //= 1024
    return f"{kib}Ti"
