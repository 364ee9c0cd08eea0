"""Read which check is enforced how; the same file configures the pack and the command line."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from policy.check import Check
from policy.checks import ALL

POLICY: Final = "law"
"""Name of the policy that carries the configuration in a pack's configuration file."""

ADVICE, STACK, STACK_ADVICE = "law-advisory", "law-of-stack", "law-of-stack-advisory"
"""The pack's other policies; they have no configuration but their level."""


class Level(StrEnum):
    """What follows from a violation."""

    MANDATORY = "mandatory"
    ADVISORY = "advisory"
    DISABLED = "disabled"


class Levels:
    """The level of each check; mandatory unless said otherwise."""

    def __init__(self, said: Mapping[str, Any] | None = None) -> None:
        """Read *said*, check -> level.

        Raises
        ------
        ValueError
            A check or a level is not known.

        """
        known = {check.ID for check in ALL}
        said = said or {}
        if strange := sorted(set(said) - known):
            raise ValueError(f"no check is called {', '.join(strange)}; the checks are {', '.join(sorted(known))}")
        if wrong := sorted(f"{name}: {level}" for name, level in said.items() if level not in tuple(Level)):
            raise ValueError(f"no level is called so: {', '.join(wrong)}; the levels are {', '.join(Level)}")
        self._said = {name: Level(level) for name, level in said.items()}

    def of(self, check: str) -> Level:
        """Return the level of the check of that ID."""
        return self._said.get(check, Level.MANDATORY)

    def enabled(self, checks: Sequence[Check]) -> tuple[Check, ...]:
        """Return *checks* without the disabled ones."""
        return tuple(check for check in checks if self.of(check.ID) is not Level.DISABLED)


def levels_of(configuration: Any) -> Levels:
    """Return the levels in a pack's configuration file, `{"law": {"levels": {"service-links": "advisory"}}}`.

    Raises
    ------
    ValueError
        It has another form, or names a check or level that is not known.

    """
    others = {ADVICE, STACK, STACK_ADVICE}
    known = isinstance(configuration, Mapping) and set(configuration) <= {POLICY, *others}
    law = configuration.get(POLICY) if known else None
    levels = law.get("levels") if isinstance(law, Mapping) and set(law) == {"levels"} else None
    if not isinstance(levels, Mapping):
        raise ValueError(  # noqa: TRY004 - of all that may be wrong with a file, its form is one
            f'it should have the form {{"{POLICY}": {{"levels": {{"<check>": "<level>"}}}}}}',
        )
    return Levels(levels)
