"""The law inside the Pulumi engine: four policies, because the engine knows one level per policy.

`law` judges every object and `law-of-stack` what only all objects together decide; the configuration of `law` moves
checks to `law-advisory` and `law-of-stack-advisory`, which are off until that configuration switches them on: each
policy costs as much again as all checks, since the SDK reads the object anew for it. Whatever the engine hands over is
turned into plain data first, so that an unknown value is a violation and not the end of the judgement.
"""

from collections.abc import Iterator, Sequence
from threading import local
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
    _DictProxy,
    _ListProxy,
)

from policy.check import Check, is_object_check, is_set_check
from policy.checks import ALL
from policy.law import Violation, judge_sources
from policy.levels import ADVICE, POLICY, STACK, STACK_ADVICE, Level, Levels
from policy.plain import UNKNOWN, plain

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
    """Judge what the engine hands over, and report each violation through the policy of its level.

    The engine asks the policies about one thing in their order, in one thread: the advisory policy comes first and
    lends its voice. Where it is off, what should be advice is reported as mandatory: nothing is lost.
    """

    def __init__(self) -> None:
        self.levels = Levels()
        self._voices = local()

    def lend_voice(self, _: ResourceValidationArgs | StackValidationArgs, report: ReportViolation) -> None:
        """Keep *report* for the advice about the same thing."""
        self._voices.advise = report

    def judge_resource(self, args: ResourceValidationArgs, report: ReportViolation) -> None:
        """Judge one resource alone."""
        self.levels = Levels(args.get_config().get("levels"))
        self._judge([(args.resource_type, args.props, args.urn)], OBJECT_CHECKS, report)

    def judge_stack(self, args: StackValidationArgs, report: ReportViolation) -> None:
        """Judge all resources together, by the levels that `law` was given."""
        resources = [(item.resource_type, item.props, item.urn) for item in args.resources]
        self._judge(resources, SET_CHECKS, report)

    def _judge(self, resources: Sequence[_Resource], checks: Sequence[Check], report: ReportViolation) -> None:
        advise = vars(self._voices).pop("advise", report)
        for violation, urn in _found(resources, self.levels.enabled(checks)):
            speak = report if self.levels.of(violation.check) is Level.MANDATORY else advise
            speak(violation.text, urn)


def policies() -> list[Policy]:
    """Return the four policies; each call makes a court of its own."""
    court = Court()
    off, on = EnforcementLevel.DISABLED, EnforcementLevel.MANDATORY
    configuration = PolicyConfigSchema(properties={"levels": LEVELS_SCHEMA})
    return [
        ResourceValidationPolicy(ADVICE, "Objects follow the advice of gpu-runtime.", court.lend_voice, off),
        ResourceValidationPolicy(POLICY, "Objects obey the law.", court.judge_resource, on, configuration),
        StackValidationPolicy(STACK_ADVICE, "The stack follows the advice of gpu-runtime.", court.lend_voice, off),
        StackValidationPolicy(STACK, "The stack obeys the law.", court.judge_stack, on),
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
    """Return *value* as plain data from behind the SDK's proxies, with UNKNOWN where they would raise."""
    if isinstance(value, str):
        return UNKNOWN if value in _SENTINELS else value
    if isinstance(value, _DictProxy):
        return {key: unguarded(child) for key, child in value[_TARGET].items()}
    if isinstance(value, _ListProxy):
        return [unguarded(child) for child in value[_TARGET]]
    return plain(value)


def _kind(of_token: str, of_props: Any) -> Any:
    """Return the kind: of a patch its own, and where token and properties disagree, nobody knows."""
    if of_token.endswith("Patch"):
        return of_token
    return of_props if of_props == of_token else UNKNOWN


def _found(resources: Sequence[_Resource], checks: Sequence[Check]) -> Iterator[tuple[Violation, str]]:
    judged = [(manifest, urn) for token, props, urn in resources if (manifest := manifest_of(token, props)) is not None]
    for index, violation in judge_sources([manifest for manifest, _ in judged], checks, read=_as_it_is):
        yield violation, judged[index][1]


def _as_it_is(value: Any) -> Any:
    return value
