import random
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest

from policy.ends import End, Pod
from policy.plain import UNKNOWN
from policy.reach import Reach, Verdict
from tests.policy import naive_walls
from tests.policy.naive_walls import Thing, World

Json = dict[str, Any]
Case = tuple[str, list[Json], str, bool]
"""What it shows, the policies, the connection, whether it opens."""

OUTSIDE = ip_address("93.184.215.14")
PRIVATE = ip_address("10.9.8.7")
METADATA = ip_address("169.254.169.254")
OUTSIDE_V6 = ip_address("2606:2800::1")

ROLE = {"podSelector": {"matchLabels": {"role": "db"}}}


def pod(name: str, namespace: str = "a", **more: Any) -> Json:
    """Give a Pod whose label `role` is its name."""
    meta = {"name": name, "namespace": namespace, "labels": {"role": name, **more.pop("labels", {})}}
    ports = [{"name": "web", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [{"name": "main", "ports": ports}], **more},
    }


def space(name: str, **labels: str) -> Json:
    """Give a Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def policy(namespace: str = "a", name: str = "p", **spec: Any) -> Json:
    """Give a NetworkPolicy; for all pods of its namespace when *spec* does not say."""
    meta = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta,
        "spec": {"podSelector": {}, **spec},
    }


ADDRESSES = {"a/db": "10.1.0.1", "a/web": "10.1.0.2", "b/db": "10.1.0.3", "b/web": "10.1.0.4"}
PODS = [space("a", team="red"), space("b", team="blue"), *(pod(n, s) for s in "ab" for n in ("db", "web"))]


def ends(reach: Reach, addresses: dict[str, str] = ADDRESSES) -> dict[str, End]:
    """Give the pods by name, each at its address, and hosts outside."""
    placed = {p.name: replace(p, addresses=(ip_address(addresses[p.name]),)) for p in reach.pods}
    return {**placed, "out": OUTSIDE, "lan": PRIVATE, "imds": METADATA, "out6": OUTSIDE_V6}


def verdict(policies: list[Json], call: str, ranges: dict[str, str] | None = None) -> Verdict:
    """Judge one connection among pods and hosts, written `a/web > out:80` or `a/web > out:53/UDP`."""
    found = re.fullmatch(r"(\S+) > (\S+):(\d+)(?:/(\w+))?", call)
    assert found
    source, target, port, protocol = found.groups()
    reach = Reach([*PODS, *apart(policies)], ranges)
    placed = ends(reach)
    return reach.verdict(placed[source], placed[target], int(port), protocol or "TCP")


def apart(policies: list[Json]) -> Iterator[Json]:
    """Give each policy a name of its own: p, p-2, p-3."""
    for number, item in enumerate(policies, 1):
        name = item["metadata"]["name"] + (f"-{number}" if number > 1 else "")
        yield {**item, "metadata": {**item["metadata"], "name": name}}


def to(*peers: Json, ports: Any = None, **more: Any) -> Json:
    """Give an egress policy of namespace a."""
    return policy(policyTypes=["Egress"], egress=[{"to": list(peers), **({"ports": ports} if ports else {})}], **more)


DENY = policy(policyTypes=["Ingress", "Egress"])
NET = {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "169.254.0.0/16"]}}
BLUE = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
NAMED_B = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "b"}}}

TABLE: list[Case] = [
    ("without a policy all passes", [], "a/web > b/db:80", True),
    ("a policy of another namespace holds nobody here", [policy("b")], "a/web > a/db:80", True),
    ("default deny closes the way out", [DENY], "a/web > b/db:80", False),
    ("default deny closes the way out to hosts", [DENY], "a/web > out:80", False),
    ("default deny closes the way in", [DENY], "b/web > a/db:80", False),
    ("default deny closes the way in from outside", [DENY], "out > a/db:80", False),
    ("a pod reaches itself", [DENY], "a/db > a/db:80", True),
    ("without policyTypes and egress: ingress alone", [policy()], "a/web > out:80", True),
    ("without policyTypes: ingress", [policy()], "b/web > a/db:80", False),
    ("without policyTypes but with egress: both", [policy(egress=[{}])], "b/web > a/db:80", False),
    ("empty policyTypes are filled in alike", [policy(policyTypes=[])], "b/web > a/db:80", False),
    ("rules count only with their type", [policy(policyTypes=["Ingress"], egress=[])], "a/web > out:80", True),
    ("a pod that is not selected is not held", [to(**ROLE)], "a/web > out:80", True),
    ("an empty rule opens all", [policy(policyTypes=["Egress"], egress=[{}])], "a/web > b/db:80/UDP", True),
    ("an empty `to` opens all", [to()], "a/web > out:80", True),
    ("no rule opens nothing", [policy(policyTypes=["Egress"], egress=[])], "a/web > out:80", False),
    ("policies add up", [DENY, to(NET)], "a/web > out:80", True),
    ("an exception is closed", [DENY, to(NET)], "a/web > lan:80", False),
    ("a block of IPv4 opens no IPv6", [DENY, to(NET)], "a/web > out6:80", False),
    ("a block of IPv6 opens IPv6", [DENY, to({"ipBlock": {"cidr": "::/0"}})], "a/web > out6:80", True),
    ("a block of IPv6 opens no IPv4", [DENY, to({"ipBlock": {"cidr": "::/0"}})], "a/web > out:80", False),
    ("one opens what another excepts", [to(NET), to({"ipBlock": {"cidr": "10.9.0.0/16"}})], "a/web > lan:80", True),
    ("a block may hold a pod's address", [to({"ipBlock": {"cidr": "10.1.0.0/16"}})], "a/web > b/db:80", True),
    ("an exception keeps a pod's address out", [to(NET)], "a/web > b/db:80", False),
    ("a bare podSelector is of this namespace", [to(ROLE)], "a/web > a/db:80", True),
    ("a bare podSelector is of no other namespace", [to(ROLE)], "a/web > b/db:80", False),
    ("a namespaceSelector finds all its pods", [to(BLUE)], "a/web > b/web:80", True),
    ("a namespaceSelector finds no other namespace", [to(BLUE)], "a/web > a/db:80", False),
    ("the automatic name label is there", [to(NAMED_B)], "a/web > b/web:80", True),
    ("an empty namespaceSelector finds all", [to({"namespaceSelector": {}})], "a/web > b/web:80", True),
    ("a selector finds no host", [to({"namespaceSelector": {}})], "a/web > out:80", False),
    ("both selectors in one entry: and", [to({**BLUE, **ROLE})], "a/web > b/web:80", False),
    ("both selectors in one entry find", [to({**BLUE, **ROLE})], "a/web > b/db:80", True),
    ("two entries: or", [to(BLUE, ROLE)], "a/web > b/web:80", True),
    ("ingress and egress must both open", [DENY, to({"podSelector": {}})], "a/web > a/db:80", False),
    ("a port alone", [to(ports=[{"port": 80}])], "a/web > out:80", True),
    ("another port", [to(ports=[{"port": 80}])], "a/web > out:81", False),
    ("the protocol is TCP unless said", [to(ports=[{"port": 53}])], "a/web > out:53/UDP", False),
    ("the protocol said", [to(ports=[{"port": 53, "protocol": "UDP"}])], "a/web > out:53/UDP", True),
    ("a protocol without port is all its ports", [to(ports=[{"protocol": "UDP"}])], "a/web > out:9/UDP", True),
    ("endPort is within", [to(ports=[{"port": 80, "endPort": 90}])], "a/web > out:90", True),
    ("beyond endPort", [to(ports=[{"port": 80, "endPort": 90}])], "a/web > out:91", False),
    ("a named port is the target's", [to(ports=[{"port": "web"}])], "a/web > b/db:8080", True),
    ("a named port is no other number", [to(ports=[{"port": "web"}])], "a/web > b/db:80", False),
    ("a named port is of its protocol", [to(ports=[{"port": "dns"}])], "a/web > b/db:53", False),
    ("a named port of UDP", [to(ports=[{"port": "dns", "protocol": "UDP"}])], "a/web > b/db:53/UDP", True),
    ("a host has no named ports", [to(ports=[{"port": "web"}])], "a/web > out:8080", False),
    ("a peer that is none may be anything", [to({})], "a/web > out:80", True),
    ("a range that is none may be anything", [to({"ipBlock": {"cidr": "10.0.0.0/33"}})], "a/web > out:80", True),
]  # fmt: skip


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case[0])
def test_the_semantics_of_network_policy(case: Case) -> None:
    """What the Kubernetes documentation says of one policy, or of several, is what is computed."""
    _, policies, call, expected = case

    assert verdict(policies, call).open == expected


SELECTORS: list[Json] = [
    {},
    {"matchLabels": {"role": "db"}},
    {"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["db"]}]},
    {"matchExpressions": [{"key": "role", "operator": "In", "values": ["web", "x"]}]},
    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
]
SPACES: list[Json] = [{}, BLUE["namespaceSelector"], NAMED_B["namespaceSelector"], SELECTORS[4]]
BLOCKS: list[Json] = [NET["ipBlock"], {"cidr": "::/0"}, {"cidr": "10.1.0.0/30", "except": ["10.1.0.2/32"]}]
PORTS: list[Json] = [
    {"port": 80},
    {"port": 80, "endPort": 8080},
    {"protocol": "UDP"},
    {"port": 53, "protocol": "UDP"},
    {"port": "web"},
]


def invented_peer(chance: random.Random) -> Json:
    """Make up an entry of `to` or `from`."""
    return chance.choice(
        [
            {"podSelector": chance.choice(SELECTORS)},
            {"namespaceSelector": chance.choice(SPACES)},
            {"namespaceSelector": chance.choice(SPACES), "podSelector": chance.choice(SELECTORS)},
            {"ipBlock": chance.choice(BLOCKS)},
        ]
    )


def invented_rule(chance: random.Random, peers: str) -> Json:
    """Make up a rule."""
    rule: Json = {}
    if chance.random() < 0.8:
        rule[peers] = [invented_peer(chance) for _ in range(chance.randrange(3))]
    if chance.random() < 0.6:
        rule["ports"] = chance.sample(PORTS, chance.randrange(3))
    return rule


def invented_policy(chance: random.Random, number: int) -> Json:
    """Make up a policy."""
    spec: Json = {"podSelector": chance.choice(SELECTORS)}
    for key, peers in (("egress", "to"), ("ingress", "from")):
        if chance.random() < 0.7:
            spec[key] = [invented_rule(chance, peers) for _ in range(chance.randrange(3))]
    if chance.random() < 0.6:
        spec["policyTypes"] = chance.sample(["Egress", "Ingress"], chance.randrange(3))
    return policy(chance.choice("ab"), f"p{number}", **spec)


def thing(name: str, end: End) -> Thing:
    """Give an end in the words of the second implementation."""
    if isinstance(end, Pod):
        return Thing(ADDRESSES[name], end.namespace, end.labels.value, {"web": 8080})
    return Thing(str(end))


@pytest.mark.parametrize("seed", range(150))
def test_two_implementations_agree(seed: int) -> None:
    """Whatever policies there are, the evaluator says what a naive reading of the documentation says."""
    chance = random.Random(seed)  # noqa: S311 - policies, not keys
    policies = [invented_policy(chance, number) for number in range(chance.randrange(1, 5))]
    reach = Reach([*PODS, *policies])
    world = World({"a": {"team": "red"}, "b": {"team": "blue"}}, policies)
    found = ends(reach)
    things = {name: thing(name, end) for name, end in found.items()}
    calls = [(port, protocol) for port in (53, 80, 443, 8080) for protocol in ("TCP", "UDP")]
    pairs = [(source, target) for source in found for target in found if "/" in source + target]
    computed = {(s, t, *c): reach.verdict(found[s], found[t], *c).open for s, t in pairs for c in calls}
    expected = {(s, t, *c): naive_walls.passes(world, things[s], things[t], *c) for s, t in pairs for c in calls}

    assert computed == expected


def test_a_reason_names_the_rules_that_open() -> None:
    """Of an open connection the reason names policy and rule of each side."""
    enter = policy("b", "in", ingress=[{"from": [{"namespaceSelector": {}}]}])
    rules = [DENY, policy(name="out", egress=[{"ports": [{"port": 1}]}, {"to": [BLUE]}]), enter]

    assert verdict(rules, "a/web > b/db:80").why == "egress by a/out-2 egress rule 2; ingress by b/in-3 ingress rule 1"


def test_a_reason_names_what_is_closed() -> None:
    """Of a closed connection the reason names each closed side: what is at the address, the ports, or the policies."""
    assert verdict([DENY], "a/web > b/db:80").why == "egress is closed by a/p"
    assert verdict([policy("b")], "a/web > b/db:80").why == "ingress is closed by b/p"
    link_local = verdict([DENY, to(NET)], "a/web > imds:80").why
    assert link_local.startswith("egress is closed: a/p-2 egress rule 1 excepts 169.254.0.0/16: link-local (RFC 3927)")
    site = verdict([to(NET)], "a/web > lan:80", {"10.9.0.0/16": "nodes of the cluster"}).why
    assert site == "egress is closed: a/p egress rule 1 excepts 10.9.0.0/16: nodes of the cluster"
    assert verdict([to(NET, ports=[{"port": 443}])], "a/web > out:80").why == (
        "egress is closed: a/p egress rule 1 opens TCP 443 alone"
    )


def test_pods_of_every_kind_are_seen() -> None:
    """What brings pods about stands for its pods, two of them where they are many: one must not reach the other."""
    template = {k: v for k, v in pod("x").items() if k in {"metadata", "spec"}}
    meta = {"name": "many", "namespace": "a"}
    many = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {"replicas": 3, "template": template},
    }
    reach = Reach([many, DENY])
    one, two = reach.pods

    assert [one.name, two.name] == ["a/many", "a/many (2)"]
    assert reach.verdict(one, one, 80).open
    assert not reach.verdict(one, two, 80).open


def test_a_pod_on_the_nodes_network_is_not_held() -> None:
    """No policy holds a pod with hostNetwork: both ways count as open."""
    reach = Reach([pod("db", hostNetwork=True), DENY])

    assert reach.verdict(reach.pods[0], OUTSIDE, 80).open
    assert reach.verdict(OUTSIDE, reach.pods[0], 80).open


def test_a_service_may_be_judged_by_its_own_address() -> None:
    """Seen at a Service's address the source's side is judged there, the target's side at the pod all the same."""
    service = (ip_address("10.96.0.1"), 443)
    at_the_service = to({"ipBlock": {"cidr": "10.96.0.1/32"}}, ports=[{"port": 443}])
    reach = Reach([*PODS, *apart([DENY, at_the_service]), policy("b", "in", ingress=[{"ports": [{"port": 80}]}])])
    found = ends(reach)
    web, db = found["a/web"], found["b/db"]

    assert not reach.verdict(web, db, 80).open
    assert reach.verdict(web, db, 80, seen=service).open
    assert not reach.verdict(web, db, 81, seen=service).open


def test_what_nobody_knows_counts_as_open() -> None:
    """A label that Kubernetes sets later may be what a rule opens for, and is no ground to hold a pod."""
    later = {"matchLabels": {"pod-template-hash": "x"}}
    held = policy(podSelector=later, policyTypes=["Egress"])
    unclear = policy(policyTypes=UNKNOWN, egress=[{}])

    assert verdict([DENY, to({"podSelector": later}), policy("a", "in", ingress=[{}])], "a/web > a/db:80").open
    assert verdict([held], "a/web > out:80").open
    assert verdict([unclear], "b/web > a/db:80").open
    assert verdict([DENY, unclear], "a/web > out:80").open


def test_every_pair_of_three_hundred_pods_takes_seconds() -> None:
    """A large tenant can be judged as a whole: policies are not read anew for each pair."""
    pods = [pod(f"u{number}") for number in range(300)]
    own = [
        to({"podSelector": {"matchLabels": {"role": f"u{n + 1}"}}}, podSelector={"matchLabels": {"role": f"u{n}"}})
        for n in range(300)
    ]
    started = time.process_time()
    reach = Reach([*pods, *apart([policy(policyTypes=["Egress"]), *own])])
    opened = sum(reach.verdict(source, target, 80).open for source in reach.pods for target in reach.pods)

    assert opened == 300 + 299
    assert time.process_time() - started < 30
