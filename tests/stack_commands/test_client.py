"""What people are told while a login does not work yet."""

import pytest

from tools.stack.client import first_word

FRAME = "@" * 59
CHANGED = f"{FRAME}\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n{FRAME}\nIT IS POSSIBLE THAT\n"


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("", "no answer"),
        ("ssh_connect: no such unit\r\nConnection closed\n", "ssh_connect: no such unit"),
        (CHANGED, "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!"),
    ],
    ids=["nothing", "the ProxyCommand", "a framed warning"],
)
def test_the_first_word_says_something(said: str, word: str) -> None:
    """It is the ProxyCommand's where it complains, and never a row of signs."""
    assert first_word(said) == word
