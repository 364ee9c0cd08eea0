"""Codes of an issuer, sealed for one origin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxy.seal import seal, unseal

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
ORIGIN, ANOTHER = "dataset--lab-a.files.example.test", "http--box--lab-b.files.example.test"
CODES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=3000)


@given(CODES)
def test_its_origin_gets_it_back(code: str) -> None:
    """What was sealed for an origin is the code again there, and nothing anywhere else or by another key."""
    sealed = seal(KEY, ORIGIN, code)

    assert unseal(KEY, ORIGIN, sealed) == code
    assert unseal(KEY, ANOTHER, sealed) is None
    assert unseal(OTHER, ORIGIN, sealed) is None
    assert seal(KEY, ANOTHER, code) != sealed


@given(CODES, st.data())
def test_a_changed_one_is_none(code: str, data: st.DataObject) -> None:
    """No letter of it can be another one."""
    sealed = seal(KEY, ORIGIN, code)
    place = data.draw(st.integers(0, len(sealed) - 2))  # the last letter has bits that say nothing
    letter = data.draw(st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"))

    changed = sealed[:place] + letter + sealed[place + 1 :]
    assert letter == sealed[place] or unseal(KEY, ORIGIN, changed) is None


@pytest.mark.parametrize("said", ["", "A", "A" * 42, "A" * 43, "A" * 44, "code-1", "\u00e4", "==", "a b", "A" * 9000])
def test_what_was_never_sealed(said: str) -> None:
    """Whatever else somebody says is no code, and no error."""
    assert unseal(KEY, ORIGIN, said) is None


def test_a_code_is_not_in_it() -> None:
    """Two codes of one beginning have nothing in common once they are sealed, nor with what they were."""
    one, other = (seal(KEY, ORIGIN, f"the-same-beginning-{number}") for number in range(2))

    assert one[:8] != other[:8]
    assert one[-8:] != other[-8:]
