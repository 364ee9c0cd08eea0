"""What a check is: a module that states one rule, and one function that finds who breaks it."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Protocol, TypeGuard

from policy.field import Finding
from policy.objects import Object, World


class Severity(StrEnum):
    """How bad it is when the rule is broken."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Framework(StrEnum):
    """A published list of rules that a check belongs to; every check belongs to ours."""

    GPU_RUNTIME = "gpu-runtime"
    PSS_BASELINE = "pss-baseline"
    PSS_RESTRICTED = "pss-restricted"
    NSA = "nsa"
    CIS = "cis"
    GPU = "gpu"
    SYSTEM_A = "system-a"


class Rule(Protocol):
    """What every check says of itself."""

    @property
    def ID(self) -> str:  # noqa: N802 - a constant of the module
        """Name of the check: its file's name with dashes."""

    @property
    def SEVERITY(self) -> Severity:  # noqa: N802
        """How bad a violation is."""

    @property
    def DESCRIPTION(self) -> str:  # noqa: N802
        """The rule, in one sentence."""

    @property
    def REMEDIATION(self) -> str:  # noqa: N802
        """What to write instead, in one sentence."""

    @property
    def FRAMEWORKS(self) -> Mapping[Framework, str]:  # noqa: N802
        """The lists it belongs to -> its number or name there."""


class ObjectCheck(Rule, Protocol):
    """A check that one object alone decides."""

    def violations(self, thing: Object) -> Iterator[Finding]:
        """Yield what is wrong in *thing*."""


class SetCheck(Rule, Protocol):
    """A check that only all objects together decide."""

    def set_violations(self, world: World) -> Iterator[tuple[Object, Finding]]:
        """Yield which object of *world* is wrong, and what."""


Check = ObjectCheck | SetCheck


def is_object_check(check: Check) -> TypeGuard[ObjectCheck]:
    """Say whether one object alone decides *check*."""
    return hasattr(check, "violations")


def is_set_check(check: Check) -> TypeGuard[SetCheck]:
    """Say whether only all objects together decide *check*."""
    return hasattr(check, "set_violations")
