"""What our pack is measured against: one rule that looks at nothing."""

from pulumi_policy import (
    EnforcementLevel,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)


def _nothing(_args: ResourceValidationArgs, _report: ReportViolation) -> None:
    """Find nothing."""


RULE = ResourceValidationPolicy("nothing", "Every object is welcome.", _nothing, EnforcementLevel.MANDATORY)
PolicyPack("empty", [RULE], EnforcementLevel.MANDATORY)  # serves the engine and never returns
