"""A unit by the name that people use, ``<unit>.<tenant>``."""

from collections.abc import Collection
from difflib import get_close_matches

from components.wording import shortened
from tools.shell import ToolError

NEAR, LISTED = 3, 12
"""Names that a refusal offers: those alike, else the first few of all."""


def demand(alias: str, known: Collection[str], where: str) -> None:
    """Refuse an *alias* that is none of those *known* to *where*, with those that are near it. Raises ToolError."""
    if alias in known:
        return
    near = sorted(get_close_matches(alias, sorted(known), NEAR))
    what = f"unit {alias!r} is not in {where}" if alias else "no unit is named: say UNIT=<unit>.<tenant>"
    if near:
        raise ToolError(f"{what}; did you mean {' or '.join(near)}?")
    raise ToolError(f"{what}; there are {shortened(sorted(known), LISTED)}" if known else f"{what}; there are no units")
