"""Nothing decides about connections but what the law can read."""

from collections.abc import Iterator
from typing import Final

from policy.check import Framework, Severity
from policy.field import Finding
from policy.foreign import is_cluster_policy, is_foreign
from policy.objects import Object

ID = "foreign-policies"
SEVERITY = Severity.CRITICAL
DESCRIPTION = "Network policies are NetworkPolicies, and ClusterNetworkPolicies that accept nothing."
REMEDIATION = "Write a NetworkPolicy of networking.k8s.io/v1; in a ClusterNetworkPolicy use the actions Deny and Pass."
FRAMEWORKS = {Framework.GPU_RUNTIME: "foreign-policies", Framework.SYSTEM_A: "S14"}

TIERS: Final = ("Admin", "Baseline")
LAST_PRIORITY: Final = 1000
"""The kind takes 0 to 1000."""


def violations(thing: Object) -> Iterator[Finding]:
    """Yield policies of other kinds, and what may accept a connection past all NetworkPolicies."""
    if is_foreign(thing):
        advice = "what it opens no NetworkPolicy closes; write a NetworkPolicy of networking.k8s.io/v1"
        said = f"{thing.kind or 'object'}: {thing.api_version.said} is no network policy that is judged"
        yield Finding(thing.root["kind"].path, f"{said}; {advice}")
    elif is_cluster_policy(thing):
        yield from _cluster_policy(thing)


def _cluster_policy(policy: Object) -> Iterator[Finding]:
    spec = policy.root["spec"]
    tier, priority = spec["tier"], spec["priority"]
    if tier.value not in TIERS:
        yield tier.refuse("policy", f"write {' or '.join(TIERS)}")
    if type(priority.value) is not int or not 0 <= priority.value <= LAST_PRIORITY:
        yield priority.refuse("policy", f"write a number from 0 to {LAST_PRIORITY}")
    for direction in ("ingress", "egress"):
        for rule in spec[direction].each():
            if rule["action"].value not in ("Deny", "Pass"):
                advice = "only Deny and Pass leave the NetworkPolicies their word"
                yield rule["action"].refuse(f"{direction} rule", advice)
