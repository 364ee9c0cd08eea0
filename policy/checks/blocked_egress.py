"""No way out leads into the private network, to the node, or to a cloud's metadata service."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from policy.baseline import ALLOWED_ANNOTATION, BLOCKED_ANNOTATION, TENANT_LABEL
from policy.blocked import Reach, reach, unfit
from policy.check import Framework, Severity
from policy.field import SAID_LENGTH, Field, Finding
from policy.objects import Object, World
from policy.permits import Rule, rules_of
from policy.ranges import Network, network, span

ID = "blocked-egress"
SEVERITY = Severity.CRITICAL
DESCRIPTION = "Egress to addresses leaves out all blocked ranges, save private ones with a reason and named ports."
REMEDIATION = (
    f"Add the range to except, or name the peer, its ports and a reason in the annotation {ALLOWED_ANNOTATION}."
)
FRAMEWORKS = {Framework.SYSTEM_A: "S2, S12, S13", Framework.NSA: "C-0030"}

NODE_DNS: Final = ("169.254.0.0/16", 53)
"""The one door in what is sealed, range and port: NodeLocal DNS answers at a link-local address, with a reason."""

FILLERS: Final = "\u115f\u1160\u3164\uffa0"
"""Letters of the Korean script that nobody sees."""

SAID: Final = 3
"""So many ranges a message names; the rest it counts."""


def set_violations(world: World) -> Iterator[tuple[Object, Finding]]:
    """Yield peers that reach what is blocked, or may, and what is malformed in them and in the two annotations.

    For a policy whose Namespace says no ranges, or that is of no Namespace of the set, those of all hold.
    """
    site: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for namespace in world.namespaces:
        said = namespace.metadata["annotations"][BLOCKED_ANNOTATION]
        good, findings = _site(said, needed=namespace.metadata["labels"][TENANT_LABEL].value is not None)
        if said.value is not None:
            site[namespace.name] += good
        yield from ((namespace, finding) for finding in findings)
    everyones = tuple(sorted({text for texts in site.values() for text in texts}))
    for policy in world.policies:
        allowed, findings = _allowed(policy.metadata["annotations"][ALLOWED_ANNOTATION])
        for rule in rules_of(policy):
            if rule.direction == "egress":
                findings.extend(_rule(rule, site.get(policy.namespace, everyones), allowed))
        yield from ((policy, finding) for finding in findings)


def _site(said: Field, *, needed: bool) -> tuple[tuple[str, ...], list[Finding]]:
    """Read the site's ranges; a tenant's namespace says them even where there are none."""
    if said.value is None and not needed:
        return (), []
    if not isinstance(said.value, str):
        return (), [
            said.refuse("namespace", "list the site's CIDRs, comma-separated; an empty text says there are none")
        ]
    texts = [text.strip() for text in said.value.split(",") if text.strip()]
    bad = [text[:SAID_LENGTH] for text in texts if network(text) is None]
    advice = "write each as a CIDR without host bits"
    return tuple(texts), [Finding(said.path, f"namespace: {_listed(bad)}: no range; {advice}")] if bad else []


def _allowed(said: Field) -> tuple[frozenset[Network], list[Finding]]:
    """Read the ranges that are opened with a reason."""
    if said.value is None:
        return frozenset(), []
    try:
        entries = json.loads(said.value, object_pairs_hook=_once) if isinstance(said.value, str) else None
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, dict):
        return frozenset(), [said.refuse("policy", "write a JSON object, CIDR to reason, each once")]
    named = frozenset(found for text in entries if (found := network(text)) is not None)
    if len(named) == len(entries) and all(map(_in_words, entries.values())):
        return named, []
    return named, [said.refuse("policy", "give each range as a CIDR without host bits, once, and a reason in words")]


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Read a JSON object; a key that is there twice would hide one of its values."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _in_words(why: object) -> bool:
    """Say whether somebody can read the reason: letters or digits that show."""
    return isinstance(why, str) and any(char.isalnum() and char not in FILLERS for char in why)


def _rule(rule: Rule, site: tuple[str, ...], allowed: frozenset[Network]) -> Iterator[Finding]:
    for peer in rule.peers.each():
        block = peer["ipBlock"]
        if block.value is not None:
            yield from _block(rule, block, site, allowed)


def _block(rule: Rule, block: Field, site: tuple[str, ...], allowed: frozenset[Network]) -> Iterator[Finding]:
    cidr, excepts = block["cidr"], _texts(block["except"])
    whole = network(cidr.value) if isinstance(cidr.value, str) else None
    if whole is None:
        yield cidr.refuse(rule.who, "write a CIDR without host bits, 203.0.113.0/24 for one")
        return
    index = unfit(cidr.value, excepts)
    if index is not None:
        bad = list(block["except"].each())[index]
        advice = "the API server takes only smaller parts of it, without host bits"
        yield Finding(bad.path, f"{rule.who}: {cidr.value} cannot except {bad.said}; {advice}")
        return
    found = reach(cidr.value, excepts, site)
    if found.metadata:
        advice = "no reason opens that: except or remove it"
        yield Finding(cidr.path, f"{rule.who}: {cidr.value} reaches metadata at {_listed(found.metadata)}; {advice}")
    elif found.blocked:
        yield from _opened(rule, cidr, found, reasoned=whole in allowed)


def _opened(rule: Rule, cidr: Field, found: Reach, *, reasoned: bool) -> Iterator[Finding]:
    if not found.inside:
        advice = "add what is blocked to except"
        yield Finding(cidr.path, f"{rule.who}: {cidr.value} reaches the blocked {_listed(found.blocked)}; {advice}")
    elif found.sealed and not _is_node_dns(rule, found.sealed):
        advice = "no reason opens that: except or remove it"
        yield Finding(cidr.path, f"{rule.who}: {cidr.value} reaches the sealed {_listed(found.sealed)}; {advice}")
    elif not reasoned:
        advice = f"name it with a reason in the annotation {ALLOWED_ANNOTATION}, or remove it"
        yield Finding(cidr.path, f"{rule.who}: {cidr.value} is blocked; {advice}")
    elif rule.ports is None:
        advice = f"name the single ports that are opened to the blocked {cidr.value}"
        yield Finding(rule.field["ports"].path, f"{rule.who}: {advice}")


def _is_node_dns(rule: Rule, sealed: tuple[str, ...]) -> bool:
    home, port = NODE_DNS
    found = [network(text) for text in (home, *sealed)]
    (low, high), *stretches = [span(one) for one in found if one is not None and one.version == 4]  # noqa: PLR2004
    inside = all(low <= first and last <= high for first, last in stretches) and len(stretches) == len(sealed)
    return inside and rule.ports == frozenset([port])


def _texts(excepts: Field) -> tuple[str, ...]:
    """Return the entries of *excepts*; what is no text is one that fits nowhere."""
    return tuple(item if isinstance(item, str) else "" for item in _items(excepts))


def _items(excepts: Field) -> list[object]:
    return excepts.value if type(excepts.value) is list else [item.value for item in excepts.each()]


def _listed(texts: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(texts) - SAID} more" if len(texts) > SAID else ""
    return ", ".join(texts[:SAID]) + more
