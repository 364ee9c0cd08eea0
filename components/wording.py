"""How messages are worded, where several say the same kind of thing."""

from collections.abc import Sequence


def shortened(words: Sequence[str], most: int) -> str:
    """List *words*, of more than *most* only the first and how many there are beside them."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
