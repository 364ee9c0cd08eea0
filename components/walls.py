"""From the table of flows to NetworkPolicies: nothing in or out but what a row says."""

import json
from collections.abc import Iterable, Iterator, Sequence

from components import names
from components.flows import Addresses, Anybody, Flow, Party, Pods, Ports
from components.kube import metadata
from components.model import Manifest
from policy.baseline import ALLOWED_ANNOTATION

DEFAULT_DENY = "default-deny"


def default_deny(namespace: str, labels: names.Labels) -> Manifest:
    """Close a whole namespace both ways; every other policy opens something for some pods."""
    return _policy(metadata(DEFAULT_DENY, namespace, labels), {}, ingress=[], egress=[])


def policies(namespace: str, labels: names.Labels, flows: Sequence[Flow]) -> dict[str, Manifest]:
    """Build the policies of *namespace* that *flows* ask for, by name: of each of its ends that is there, in and out.

    Each direction has a policy of its own: where one has both, kube-router lets its pods out to each other by the rules
    for who may come in.
    """
    ends = (end for flow in flows for end in (flow.source, flow.target))
    ours = {end.name: end for end in ends if isinstance(end, Pods) and end.namespace == namespace}
    made = (policy for pods in ours.values() for policy in _opening(pods, labels, flows))
    return {policy["metadata"]["name"]: policy for policy in made}


def _opening(pods: Pods, labels: names.Labels, flows: Sequence[Flow]) -> Iterator[Manifest]:
    """Open for *pods* what the rows say of them; what no row says stays closed by the namespace's default."""
    if into := [flow for flow in flows if flow.target == pods]:
        rules = [_rule("from", pods, flow.source, flow.ports) for flow in into]
        yield _policy(metadata(f"{pods.name}-in", pods.namespace, labels), pods.selector, ingress=rules)
    if out := [flow for flow in flows if flow.source == pods]:
        rules = [_rule("to", pods, flow.target, flow.ports) for flow in out]
        yield _policy(metadata(f"{pods.name}-out", pods.namespace, labels, _named(out)), pods.selector, egress=rules)


def _named(flows: Iterable[Flow]) -> dict[str, str]:
    """Say in an annotation why each range was opened that a stack file names: the law demands it for blocked ones."""
    reasons: dict[str, dict[str, None]] = {}
    for flow in flows:
        for block in flow.target.blocks if isinstance(flow.target, Addresses) and flow.target.named else ():
            reasons.setdefault(block.cidr, {})[flow.why] = None
    said = {cidr: "; ".join(whys) for cidr, whys in reasons.items()}
    return {ALLOWED_ANNOTATION: json.dumps(said)} if said else {}


def _rule(side: str, pods: Pods, party: Party, ports: Ports) -> Manifest:
    """Build one rule of *pods* for the *party* at the other end, which stands on *side* of it: `to` or `from`."""
    rule: Manifest = {} if isinstance(party, Anybody) else {side: _peers(pods, party)}
    if ports:
        rule["ports"] = [{"protocol": port.protocol, "port": port.number} for port in ports]
    return rule


def _peers(pods: Pods, party: Pods | Addresses) -> list[Manifest]:
    if isinstance(party, Addresses):
        return [{"ipBlock": _block(block.cidr, block.excepted)} for block in party.blocks]
    if party.namespace == pods.namespace:
        return [{"podSelector": party.selector}]
    return [{"namespaceSelector": _namespaces(party.namespace), "podSelector": party.selector}]


def _namespaces(namespace: str | None) -> Manifest:
    """Select a namespace by the name that the API server itself writes, or every one that is a tenant's."""
    if namespace is not None:
        return names.namespace_selector(namespace)
    return {"matchExpressions": [{"key": names.TENANT_LABEL, "operator": "Exists"}]}


def _block(cidr: str, excepted: Sequence[str]) -> Manifest:
    return {"cidr": cidr, "except": list(excepted)} if excepted else {"cidr": cidr}


def _policy(meta: Manifest, selector: Manifest, **rules: list[Manifest]) -> Manifest:
    """Build a policy that closes the named directions but for their rules."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta,
        "spec": {
            "podSelector": selector,
            "policyTypes": [direction.capitalize() for direction in rules],
            **{direction: found for direction, found in rules.items() if found},
        },
    }
