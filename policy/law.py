"""Judge manifests: plain data in, violations out; the same in the program, in tests, the engine and on a terminal."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from policy.check import Check, Severity, is_object_check, is_set_check
from policy.checks import ALL
from policy.field import Finding
from policy.objects import Object, World, objects
from policy.plain import plain


class Violation(NamedTuple):
    """One breach of the law; it never holds the value of a Secret."""

    check: str
    severity: Severity
    kind: str
    namespace: str
    name: str
    path: str
    message: str

    @property
    def text(self) -> str:
        """Return the violation as one line."""
        owner = "/".join(filter(None, (self.namespace, self.name)))
        return f"{self.kind or 'object'} {owner or '(no name)'}: {self.message} [{self.check}, at {self.path}]"


def violations(manifest: Any, checks: Sequence[Check] = ALL) -> list[Violation]:
    """Return what *manifest* alone breaks; a List is judged item by item. Pulumi inputs in it count as unknown."""
    return [violation for _, violation in _each(objects(plain(manifest)), checks)]


def set_violations(manifests: Iterable[Any], checks: Sequence[Check] = ALL) -> list[Violation]:
    """Return what only *manifests* together break: pods without walls, Services that open a tenant's namespace."""
    return [violation for _, violation in _together(_all_objects(manifests), checks)]


def judge(manifests: Iterable[Any], checks: Sequence[Check] = ALL) -> list[Violation]:
    """Return all that *manifests* break, each alone and all together."""
    return [violation for _, violation in judge_sources(manifests, checks)]


def judge_sources(
    manifests: Iterable[Any],
    checks: Sequence[Check] = ALL,
    read: Callable[[Any], Any] = plain,
) -> list[tuple[int, Violation]]:
    """Return all that *manifests* break, each with the index of its manifest, in the order of the manifests.

    *read* makes plain data of a manifest; whoever has plain data already spares the time.
    """
    things = _all_objects(manifests, read)
    return sorted((*_each(things, checks), *_together(things, checks)), key=lambda pair: pair[0])


def _all_objects(manifests: Iterable[Any], read: Callable[[Any], Any] = plain) -> list[Object]:
    return [thing for source, manifest in enumerate(manifests) for thing in objects(read(manifest), source)]


def _each(things: Iterable[Object], checks: Sequence[Check]) -> Iterator[tuple[int, Violation]]:
    mine = [check for check in checks if is_object_check(check)]
    for thing in things:
        for check in mine:
            for finding in check.violations(thing):
                yield thing.source, _violation(check, thing, finding)


def _together(things: Sequence[Object], checks: Sequence[Check]) -> Iterator[tuple[int, Violation]]:
    world = World(things)
    for check in checks:
        if is_set_check(check):
            for thing, finding in check.set_violations(world):
                yield thing.source, _violation(check, thing, finding)


def _violation(check: Check, thing: Object, finding: Finding) -> Violation:
    return Violation(check.ID, check.SEVERITY, thing.kind, thing.namespace, thing.name, *finding)
