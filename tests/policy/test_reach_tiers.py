from typing import Any

import pytest

from tests.policy.test_reach import DENY, Case, Json, policy, verdict


def admin(priority: int, subject: Json, tier: str = "Admin", **rules: Any) -> Json:
    """Give a ClusterNetworkPolicy."""
    spec = {"tier": tier, "priority": priority, "subject": subject, **rules}
    meta = {"name": f"{tier.lower()}-{priority}"}
    return {
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "metadata": meta,
        "spec": spec,
    }


LATER = policy(name="later", policyTypes=["Egress", "Ingress"], egress=[{}], ingress=[{}])
"""What a tenant that may write policies would add to his namespace."""

ALL: Json = {"namespaces": {}}
RED: Json = {"namespaces": {"matchLabels": {"team": "red"}}}
BLUE: Json = {"namespaces": {"matchLabels": {"team": "blue"}}}
WEB: Json = {"pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": {"role": "web"}}}}
PRIVATE: Json = {"networks": ["10.9.0.0/16", "169.254.0.0/16"]}
PODS: Json = {"networks": ["10.1.0.0/16"]}
NODES: Json = {"nodes": {}}


def to(action: str, *peers: Json, **more: Any) -> Json:
    """Give one egress rule."""
    return {"action": action, "to": list(peers), **more}


def accept(priority: int, peer: Json) -> Json:
    """Let the pods of the red namespace go to *peer*."""
    return admin(priority, RED, egress=[to("Accept", peer)])


def bar(peer: Json, subject: Json = RED, priority: int = 1, **more: Any) -> Json:
    """Keep the pods of *subject* from *peer*."""
    return admin(priority, subject, egress=[to("Deny", peer, **more)])


def entry(action: str, peer: Json) -> Json:
    """Judge who comes from *peer* to the pods of the red namespace."""
    return admin(2, RED, ingress=[{"action": action, "from": [peer]}])


def tcp(port: Json) -> list[Json]:
    """Give the protocols of a rule."""
    return [{"tcp": {"destinationPort": port}}]


BASELINE = admin(1, RED, "Baseline", egress=[to("Deny", ALL)])
ORDER = admin(1, RED, egress=[to("Deny", PRIVATE), to("Accept", PRIVATE)])
PASS = admin(1, RED, egress=[to("Pass", ALL), to("Accept", ALL)])

TIERS: list[Case] = [
    ("a later policy that opens all opens no Deny", [LATER, bar(PRIVATE)], "a/web > lan:80", False),
    ("what no rule names goes on to the policies", [LATER, bar(PRIVATE)], "a/web > out:80", True),
    ("Deny of ingress", [LATER, entry("Deny", BLUE)], "b/web > a/db:80", False),
    ("Accept opens what policies close", [DENY, accept(1, ALL), entry("Accept", ALL)], "a/web > a/db:80", True),
    ("Pass leaves it to the policies", [DENY, PASS], "a/web > b/db:80", False),
    ("the lower number comes first", [bar(PRIVATE, priority=9), accept(1, PRIVATE)], "a/web > lan:80", True),
    ("the first rule that matches decides", [LATER, ORDER], "a/web > lan:80", False),
    ("among equals any may decide: open", [bar(PRIVATE), accept(1, PRIVATE)], "a/web > lan:80", True),
    ("another subject is not barred", [bar(PRIVATE, BLUE)], "a/web > lan:80", True),
    ("pods as subject", [bar(PRIVATE, WEB)], "a/web > lan:80", False),
    ("pods that are no subject", [bar(PRIVATE, WEB)], "a/db > lan:80", True),
    ("a network names pods there too", [LATER, bar(PODS)], "a/web > b/db:80", False),
    ("another port", [bar(PRIVATE, protocols=tcp({"number": 81}))], "a/web > lan:80", True),
    ("a range of ports", [bar(PRIVATE, protocols=tcp({"range": {"start": 1, "end": 81}}))], "a/web > lan:80", False),
    ("another protocol", [bar(PRIVATE, protocols=[{"udp": {}}])], "a/web > lan:80", True),
    ("a named port", [bar(ALL, protocols=[{"destinationNamedPort": "web"}])], "a/web > b/db:8080", False),
    ("the baseline holds who has no policy", [BASELINE], "a/web > b/db:80", False),
    ("a policy overrides the baseline", [LATER, BASELINE], "a/web > b/db:80", True),
    ("a Deny that nobody can read denies nothing for sure", [bar(NODES)], "a/web > lan:80", True),
]


@pytest.mark.parametrize("case", TIERS, ids=lambda case: case[0])
def test_the_semantics_of_cluster_network_policy(case: Case) -> None:
    """Tiers are asked in order, within them priorities, within them rules; a Deny there cannot be opened later."""
    _, policies, call, expected = case

    assert verdict(policies, call).open == expected


def test_a_reason_names_the_cluster_policy() -> None:
    """The reason says which rule of which ClusterNetworkPolicy decided."""
    assert verdict([LATER, bar(PRIVATE)], "a/web > lan:80").why == "egress is closed by admin-1-2 egress rule 1"
