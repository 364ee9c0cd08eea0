"""The law inside the Pulumi engine: four policies, because the engine knows one level per policy.

`law` judges every object once and configures all four; what it finds at the level advisory it leaves to `law-advisory`.
`law-of-stack` and `law-of-stack-advisory` do the same for what only the whole stack decides. Everything the engine
hands over is turned into plain data once, so that an unknown value is a violation and not the end of the judgement.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import (
    UNKNOWN_ARCHIVE_VALUE,
    UNKNOWN_ARRAY_VALUE,
    UNKNOWN_ASSET_VALUE,
    UNKNOWN_BOOLEAN_VALUE,
    UNKNOWN_NUMBER_VALUE,
    UNKNOWN_OBJECT_VALUE,
    UNKNOWN_STRING_VALUE,
)

from policy.check import Check, is_object_check, is_set_check
from policy.checks import ALL
from policy.law import Violation, judge_sources
from policy.levels import POLICY, Level, Levels
from policy.plain import UNKNOWN

COMPONENTS: Final = frozenset(
    {
        "kubernetes:helm.sh/v2:Chart",
        "kubernetes:helm.sh/v3:Chart",
        "kubernetes:helm.sh/v4:Chart",
        "kubernetes:kustomize/v2:Directory",
        "kubernetes:kustomize:Directory",
        "kubernetes:yaml/v2:ConfigFile",
        "kubernetes:yaml/v2:ConfigGroup",
        "kubernetes:yaml:ConfigFile",
        "kubernetes:yaml:ConfigGroup",
    },
)
"""Components of the Kubernetes provider: the engine sends each of their children, so they are no objects themselves."""

_SENTINELS: Final = frozenset(
    {
        UNKNOWN_ARCHIVE_VALUE,
        UNKNOWN_ARRAY_VALUE,
        UNKNOWN_ASSET_VALUE,
        UNKNOWN_BOOLEAN_VALUE,
        UNKNOWN_NUMBER_VALUE,
        UNKNOWN_OBJECT_VALUE,
        UNKNOWN_STRING_VALUE,
    },
)
_TARGET: Final = "__target"
"""Key under which the SDK's proxies hand out what they guard; reading past the guard is what lets us see unknowns."""

LEVELS_SCHEMA: Final = {
    "type": "object",
    "description": "check -> level; a check that is not named is mandatory",
    "properties": {check.ID: {"type": "string", "enum": [level.value for level in Level]} for check in ALL},
    "additionalProperties": False,
}
"""Lets the engine refuse a misspelt check before it runs anything."""

OBJECT_CHECKS: Final = tuple(check for check in ALL if is_object_check(check))
SET_CHECKS: Final = tuple(check for check in ALL if is_set_check(check))

_Resource = tuple[str, Any, str]
"""Type token, properties and URN."""


class Court:
    """Judge what the engine hands over, and hand each violation to the policy of its level.

    The engine asks the policies of a pack one after the other about the same resource, and the advisory ones last.
    """

    def __init__(self) -> None:
        self.levels = Levels()
        self._advice: dict[str, list[tuple[str, str]]] = {}

    def judge_resource(self, args: ResourceValidationArgs, report: ReportViolation) -> None:
        """Judge one resource alone: report what is mandatory, keep the rest for `advise_resource`."""
        self.levels = Levels(args.get_config().get("levels"))
        self._judge([(args.resource_type, args.props, args.urn)], OBJECT_CHECKS, args.urn, report)

    def judge_stack(self, args: StackValidationArgs, report: ReportViolation) -> None:
        """Judge all resources together: report what is mandatory, keep the rest for `advise_stack`."""
        resources = [(item.resource_type, item.props, item.urn) for item in args.resources]
        self._judge(resources, SET_CHECKS, "", report)

    def advise_resource(self, args: ResourceValidationArgs, report: ReportViolation) -> None:
        """Report what `judge_resource` kept."""
        self._advise(args.urn, report)

    def advise_stack(self, _: StackValidationArgs, report: ReportViolation) -> None:
        """Report what `judge_stack` kept."""
        self._advise("", report)

    def _judge(
        self,
        resources: Sequence[_Resource],
        checks: Sequence[Check],
        session: str,
        report: ReportViolation,
    ) -> None:
        found = list(_found(resources, self.levels.enabled(checks)))
        for violation, urn in found:
            if self.levels.of(violation.check) is Level.MANDATORY:
                report(violation.text, urn)
        self._advice[session] = [
            (violation.text, urn) for violation, urn in found if self.levels.of(violation.check) is Level.ADVISORY
        ]

    def _advise(self, session: str, report: ReportViolation) -> None:
        for text, urn in self._advice.pop(session, ()):
            report(text, urn)


def policies() -> list[Policy]:
    """Return the four policies; each call makes a court of its own."""
    court = Court()
    return [
        ResourceValidationPolicy(
            POLICY,
            "Objects obey the law of gpu-runtime.",
            court.judge_resource,
            EnforcementLevel.MANDATORY,
            PolicyConfigSchema(properties={"levels": LEVELS_SCHEMA}),
        ),
        ResourceValidationPolicy(
            f"{POLICY}-advisory",
            "Objects follow the advice of gpu-runtime.",
            court.advise_resource,
            EnforcementLevel.ADVISORY,
        ),
        StackValidationPolicy(
            f"{POLICY}-of-stack",
            "The stack obeys the law of gpu-runtime.",
            court.judge_stack,
            EnforcementLevel.MANDATORY,
        ),
        StackValidationPolicy(
            f"{POLICY}-of-stack-advisory",
            "The stack follows the advice of gpu-runtime.",
            court.advise_stack,
            EnforcementLevel.ADVISORY,
        ),
    ]


def manifest_of(token: str, props: Any) -> dict[str, Any] | None:
    """Return the manifest behind a resource of type *token*; None when it is no Kubernetes object."""
    data = unguarded(props)
    if token in COMPONENTS or not isinstance(data, dict):
        return None
    if not token.startswith("kubernetes:"):
        return data if "apiVersion" in data and "kind" in data else None
    api_version, _, kind = token.removeprefix("kubernetes:").rpartition(":")
    return {"apiVersion": api_version.removeprefix("core/")} | data | {"kind": _kind(kind, data.get("kind", kind))}


def unguarded(value: Any) -> Any:
    """Return *value* from behind the SDK's proxies, with UNKNOWN where they would raise."""
    if isinstance(value, str):
        return UNKNOWN if value in _SENTINELS else value
    if isinstance(value, Mapping):
        return {key: unguarded(child) for key, child in value[_TARGET].items()}
    if isinstance(value, Sequence):
        return [unguarded(child) for child in value[_TARGET]]  # type: ignore[call-overload]
    return value


def _kind(of_token: str, of_props: Any) -> Any:
    """Return the kind: of a patch its own, and where token and properties disagree, nobody knows."""
    if of_token.endswith("Patch"):
        return of_token
    return of_props if of_props == of_token else UNKNOWN


def _found(resources: Sequence[_Resource], checks: Sequence[Check]) -> Iterator[tuple[Violation, str]]:
    judged = [(manifest, urn) for token, props, urn in resources if (manifest := manifest_of(token, props)) is not None]
    for index, violation in judge_sources([manifest for manifest, _ in judged], checks):
        yield violation, judged[index][1]
