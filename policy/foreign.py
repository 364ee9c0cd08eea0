"""Know the network policies of other kinds: what they open, no NetworkPolicy closes."""

import re
from typing import Final

from policy.objects import Object
from policy.plain import UNKNOWN

READ: Final = frozenset(
    {
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy"),
    },
)
"""The kinds that are judged, in the version that is judged."""

_GROUPS: Final = re.compile(
    r"(.*\.)?(cilium\.io|projectcalico\.org|antrea\.io|ovn\.org|kubeovn\.io|network\.openshift\.io)"
    r"|policy\.networking\.k8s\.io",
)
"""API groups of network plugins: any kind of theirs may change who reaches whom."""


def is_foreign(thing: Object) -> bool:
    """Say whether *thing* is, or may be, a network policy that the law cannot read."""
    said = (thing.api_version.value, thing.root["kind"].value)
    if said in READ:
        return False
    named = thing.kind.strip().lower().endswith("networkpolicy")
    return UNKNOWN in said or named or _GROUPS.fullmatch(thing.group.strip().lower()) is not None


def is_cluster_policy(thing: Object) -> bool:
    """Say whether *thing* is a ClusterNetworkPolicy, the kind that is asked before and after all NetworkPolicies."""
    return thing.is_a("policy.networking.k8s.io", "ClusterNetworkPolicy") and not is_foreign(thing)
