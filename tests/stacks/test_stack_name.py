"""The name of a stack is part of a namespace's name."""

import pytest

from components import names
from stacks.load import owner
from stacks.problems import RefusedError


@pytest.mark.parametrize("name", ["dev", "lab-7", "a" * 40])
def test_a_usable_name_is_the_owner(name: str) -> None:
    """The longest name still fits into a namespace, which is one DNS label."""
    assert owner(name) == name
    assert len(names.probe_namespace(name)) <= 63


@pytest.mark.parametrize("name", ["Dev", "my_stack", "a.b", "7", "a--b", "-a", "a" * 41])
def test_any_other_name_is_refused(name: str) -> None:
    """It is refused before anything is registered, with what would be right."""
    with pytest.raises(RefusedError, match="at most 40 lower-case letters, digits and single '-'"):
        owner(name)
