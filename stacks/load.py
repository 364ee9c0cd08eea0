"""Read the stack file through the engine and judge it: every problem at once, before anything is registered."""

import json
from collections.abc import Container, Iterator
from itertools import chain
from typing import Any

import pulumi
from pulumi.runtime import config as engine

from components.entry import ServiceSpec
from components.model import NAME_LENGTH, NAME_PATTERN
from components.names import PROJECT
from stacks import handover
from stacks.cross_checks import cross_problems
from stacks.egress_checks import cautions as range_cautions
from stacks.handover import completed
from stacks.handover_checks import self_problems
from stacks.key_checks import key_cautions
from stacks.problems import Problem, Raw, RefusedError, structural
from stacks.schema import StackConfig

SECRETS = ("secret", "previousSecret", "serverToken", "platformKeys", "oidcClientSecret")
"""Keys of the stack file that must be encrypted in it."""


def raw_config() -> dict[str, Any]:
    """Give the values below ``gpu-runtime:`` as the engine hands them over, secrets decrypted."""
    prefix = f"{PROJECT}:"
    said = {**engine.get_config_env(), **engine.CONFIG.get()}
    found = {key.removeprefix(prefix): value for key, value in said.items() if key.startswith(prefix)}
    return {key: _value(value) for key, value in found.items()}


def _value(text: str) -> Any:
    """Undo the engine's encoding: objects and lists come as JSON, scalars as they are."""
    return json.loads(text) if text.startswith(("{", "[")) else text


def clear_text(raw: Raw, encrypted: Container[str]) -> Iterator[Problem]:
    """Yield a problem for each secret of *raw* that the stack file holds unencrypted."""
    for key in SECRETS:
        if key in raw and f"{PROJECT}:{key}" not in encrypted:
            advice = f"`pulumi config set --secret {PROJECT}:{key}` (and change it: it was readable)"
            yield Problem(key, f"is stored in clear text; encrypt it: {advice}")


def parse(raw: Raw, encrypted: Container[str], stack: str = "") -> StackConfig:
    """Turn *raw*, whose keys *encrypted* the engine decrypted, into the stack called *stack*.

    Raises RefusedError with every problem that its types or its parts together have.
    """
    judged = (structural(StackConfig, raw), clear_text(raw, encrypted), cross_problems(raw), self_problems(raw, stack))
    problems = [*chain.from_iterable(judged)]
    if problems:
        raise RefusedError(problems)
    return StackConfig.model_validate(raw)


def load(stack: str) -> StackConfig:
    """Give the stack called *stack*, which the engine runs. Raises RefusedError."""
    encrypted = {*engine.get_config_secret_keys_env(), *engine._SECRET_KEYS.get()}  # noqa: SLF001 - tests set only these
    said = raw_config()
    raw = completed(said, stack, handover.outputs_of)
    config = parse(raw, {*encrypted, *(f"{PROJECT}:{key}" for key in raw.keys() - said.keys())}, stack)
    for caution in cautions(config):
        pulumi.log.warn(caution)
    return config


def owner(stack: str) -> str:
    """Give the name of a stack as the owner of what it makes; it is part of a namespace's name.

    Raises RefusedError when it cannot be.
    """
    if len(stack) > NAME_LENGTH or not NAME_PATTERN.fullmatch(stack):
        words = f"at most {NAME_LENGTH} lower-case letters, digits and single '-', beginning with a letter"
        raise RefusedError([Problem("stack", f"{stack!r} cannot name a namespace; name the stack with {words}")])
    return stack


def cautions(config: StackConfig) -> Iterator[str]:
    """Yield what is odd in a stack file and harmless, so that its author may mend it."""
    platform = config.platform
    yield from _source_cautions("platform.ssh.service", platform.ssh.service if platform else ServiceSpec())
    if platform and platform.browser:
        yield from _source_cautions("platform.browser.service", platform.browser.service)
    yield from key_cautions(config)
    if config.platform and config.ssh.server and not config.ssh.server.gate:
        advice = "say `gate: true` once its operator has it ask ours (docs/operations.md)"
        danger = "whoever holds its token, each of the stack's units among them, can announce any unit's host there"
        yield f"{PROJECT}:platform.ssh.server: without a gate, {danger}; {advice}"
    yield from range_cautions(config.egress, "egress")
    for name, tenant in config.tenants.items():
        yield from range_cautions(tenant.egress, f"tenants.{name}.egress")


def _source_cautions(path: str, service: ServiceSpec) -> Iterator[str]:
    """Tell whom an entrance with ranges of clients' addresses sees in place of those clients."""
    if not service.source_ranges:
        return
    if service.type == "ClusterIP":
        advice = "only pods and nodes of the cluster come to that, and others' ranges turn them all away; leave one out"
        yield f"{PROJECT}:{path}: sourceRanges with type ClusterIP: {advice}"
    elif service.external_traffic_policy == "Cluster":
        advice = "most network plugins then see a node's address in place of the client's, and turn it away; say Local"
        yield f"{PROJECT}:{path}: sourceRanges with externalTrafficPolicy Cluster: {advice}"
