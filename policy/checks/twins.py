"""Of two objects with one name the cluster keeps the last, and the law would count both."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from policy.check import Framework, Severity
from policy.field import Finding
from policy.objects import Identity, Object, World
from policy.plain import UNKNOWN

ID = "twins"
SEVERITY = Severity.CRITICAL
DESCRIPTION = "No two objects have, or may have, one kind, namespace and name."
REMEDIATION = "Give each object a name of its own, known before the deployment."
FRAMEWORKS = {Framework.GPU_RUNTIME: "twins"}


def set_violations(world: World) -> Iterator[tuple[Object, Finding]]:
    """Yield objects that replace an earlier one, and those that may replace any."""
    kinds: dict[tuple[str, str], dict[Identity, list[Object]]] = defaultdict(lambda: defaultdict(list))
    for thing in world.objects:
        if thing.identity is not None:
            kinds[thing.group, thing.kind][thing.identity].append(thing)
    for identities in kinds.values():
        for identity, twins in identities.items():
            if UNKNOWN not in identity:
                yield from ((twin, _replaces(twin)) for twin in twins[1:])
            elif len(twins) > 1 or _may_be_another(identity, list(identities)):
                yield from ((twin, _may_replace(twin)) for twin in twins)


def _may_be_another(identity: Identity, others: Sequence[Identity]) -> bool:
    return any(
        other != identity and all(UNKNOWN in pair or pair[0] == pair[1] for pair in zip(identity, other, strict=True))
        for other in others
    )


def _replaces(thing: Object) -> Finding:
    advice = "the cluster keeps one of them; give each a name of its own"
    return Finding(thing.metadata["name"].path, f"{thing.kind}: another is called {thing.name}; {advice}")


def _may_replace(thing: Object) -> Finding:
    advice = "say its name and namespace, so that it surely replaces no other"
    unknown = next(key for key in ("name", "namespace") if thing.metadata[key].value is UNKNOWN)
    return thing.metadata[unknown].refuse(thing.kind, advice)
