"""What the platform may ask the Kubernetes API: single kinds, to read them, and nobody but its own accounts."""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from policy.baseline import SECRET_READERS, TOKEN_EXEMPTIONS
from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.objects import Object, World

ID = "api-rights"
SEVERITY = Severity.CRITICAL
DESCRIPTION = (
    "Roles read whole kinds that they name, and bind only accounts of the platform's own; Secrets are read in "
    f"{', '.join(SECRET_READERS)} alone, by {', '.join(SECRET_READERS.values())}."
)
REMEDIATION = "Name each group and kind with the verbs get, list and watch, and bind an exempt account of the platform."
FRAMEWORKS = {Framework.CIS: "5.1.1, 5.1.2, 5.1.3", Framework.NSA: "C-0015, C-0035"}

GROUP: Final = "rbac.authorization.k8s.io"
READS: Final = frozenset({"get", "list", "watch"})
SECRETS: Final = "secrets"


def set_violations(world: World) -> Iterator[tuple[Object, Finding]]:
    """Yield what roles give beyond reading, and bindings of others or of roles that nobody has judged."""
    roles = {_role(thing) for thing in world.objects if thing.group == GROUP}
    for thing in world.objects:
        if thing.group != GROUP:
            continue
        if thing.kind in ("Role", "ClusterRole"):
            secrets = thing.kind == "Role" and thing.home in world.platform and thing.home in SECRET_READERS
            yield from ((thing, finding) for finding in _given(thing, _may_be_secrets if secrets else _is_kind))
        elif thing.kind in ("RoleBinding", "ClusterRoleBinding"):
            yield from ((thing, finding) for finding in _bound(thing, roles, world))


def _role(thing: Object) -> tuple[str, str, str | None]:
    return thing.kind, thing.name, thing.home if thing.kind == "Role" else ""


def _given(role: Object, fits: Callable[[str], bool]) -> Iterator[Finding]:
    if role.root["aggregationRule"].value is not None:
        yield role.root["aggregationRule"].refuse("role", "write the rules out: this one grows with others")
    for rule in role.root["rules"].each():
        yield from _unfit(rule["verbs"], _is_reading, "only get, list and watch are given")
        yield from _unfit(rule["apiGroups"], _is_name, "name the group")
        yield from _unfit(rule["resources"], fits, "name a kind that is read as a whole, and never Secrets")
        yield from _unfit(rule["nonResourceURLs"], _never, "remove it: whoever needs no kind needs no right")


def _unfit(listed: Field, fits: Callable[[str], bool], advice: str) -> Iterator[Finding]:
    for item in listed.each():
        if not (isinstance(item.value, str) and fits(item.value)):
            yield item.refuse("role", advice)


def _is_reading(verb: str) -> bool:
    return verb in READS


def _is_name(text: str) -> bool:
    return "*" not in text


def _is_kind(text: str) -> bool:
    """Say no to Secrets, and to parts of a kind: to `get` pods/exec is to run a command."""
    return _is_name(text) and "/" not in text and text != SECRETS


def _may_be_secrets(text: str) -> bool:
    """Say yes to Secrets as a whole, where a namespace holds nothing else and one account may be bound."""
    return text == SECRETS or _is_kind(text)


def _never(_text: str) -> bool:
    return False


def _bound(binding: Object, roles: set[tuple[str, str, str | None]], world: World) -> Iterator[Finding]:
    kind, name = binding.root.at("roleRef", "kind").value, binding.root.at("roleRef", "name")
    if (kind, name.value, binding.home if kind == "Role" else "") not in roles:
        yield name.refuse("binding", "bind a role that is written out beside it, so that the law sees what it gives")
    for subject in binding.root["subjects"].each():
        if subject["kind"].value != "ServiceAccount":
            yield subject["kind"].refuse("binding", "bind a ServiceAccount; people get their rights elsewhere")
        elif subject["namespace"].value not in world.platform:
            yield subject["namespace"].refuse("binding", "bind an account in the platform's namespace")
        elif subject["name"].value not in (allowed := _accounts(binding)):
            yield subject["name"].refuse("binding", f"bind one of {', '.join(sorted(allowed))}")


def _accounts(binding: Object) -> AbstractSet[str]:
    """Give the accounts that may be bound there: one alone where Secrets may be read."""
    reader = SECRET_READERS.get(binding.home or "") if binding.kind == "RoleBinding" else None
    return TOKEN_EXEMPTIONS.keys() if reader is None else {reader}
