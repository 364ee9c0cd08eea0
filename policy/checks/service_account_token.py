"""A pod is nobody to the Kubernetes API, but for the few of the platform that must ask it."""

from collections.abc import Iterator

from policy.baseline import PLATFORM_LABEL, TOKEN_CONTAINERS, TOKEN_EXEMPTIONS
from policy.check import Framework, Severity
from policy.field import Field, Finding
from policy.objects import Object, Pod, World
from policy.plain import UNKNOWN

ID = "service-account-token"
SEVERITY = Severity.HIGH
DESCRIPTION = f"No pod carries a service-account token, save the platform's {', '.join(sorted(TOKEN_EXEMPTIONS))}."
REMEDIATION = "Set automountServiceAccountToken to false on pods and ServiceAccounts, and project no token."
FRAMEWORKS = {Framework.NSA: "C-0034", Framework.CIS: "5.1.6"}

TOKEN_SECRET = "kubernetes.io/service-account-token"  # noqa: S105 - the type of a Secret, not one
EXEMPTION_LABEL = PLATFORM_LABEL[0]
"""The label by which `TOKEN_EXEMPTIONS` names a pod, its component; it counts in the platform's namespace only."""


def set_violations(world: World) -> Iterator[tuple[Object, Finding]]:
    """Yield pods, ServiceAccounts and Secrets that hand out a token."""
    for thing in world.objects:
        if thing.pod is not None:
            judged = _spread if thing.home in world.platform and _exempt(thing.pod) else _mounted
            yield from ((thing, finding) for finding in judged(thing.pod))
        yield from ((thing, finding) for finding in _granted(thing))


def _exempt(pod: Pod) -> bool:
    name = pod.labels[EXEMPTION_LABEL].value
    return isinstance(name, str) and name in TOKEN_EXEMPTIONS


def _mounted(pod: Pod) -> Iterator[Finding]:
    flag = pod.spec["automountServiceAccountToken"]
    if flag.value is not False:
        yield flag.refuse(pod.who, "set it to false")
    for volume, token in _tokens(pod):
        yield Finding(token.path, f"volume {volume['name'].said}: projects a service-account token; remove it")


def _tokens(pod: Pod) -> Iterator[tuple[Field, Field]]:
    """Yield each volume that projects a token, and the place that says so."""
    for volume in pod.spec["volumes"].each():
        for source in volume["projected"]["sources"].each():
            if source["serviceAccountToken"].value is not None:
                yield volume, source["serviceAccountToken"]


def _spread(pod: Pod) -> Iterator[Finding]:
    """Yield what gives the token of an exempt pod to containers that face clients."""
    only = TOKEN_CONTAINERS.get(str(pod.labels[EXEMPTION_LABEL].value))
    if only is None:
        return
    flag = pod.spec["automountServiceAccountToken"]
    if flag.value is not False:
        yield flag.refuse(pod.who, f"set it to false, and project the token for container {only} alone")
    tokens = {volume["name"].value for volume, _ in _tokens(pod)}
    for container in pod.containers:
        if container.field["name"].value == only:
            continue
        for mounted in container.field["volumeMounts"].each():
            if mounted["name"].value in tokens or mounted["name"].value is UNKNOWN:
                yield mounted["name"].refuse(container.who, f"only container {only} may mount a service-account token")


def _granted(thing: Object) -> Iterator[Finding]:
    if thing.is_a("", "ServiceAccount"):
        flag = thing.root["automountServiceAccountToken"]
        if flag.value is not False:
            yield flag.refuse("service account", "set it to false; a pod that needs a token says so itself")
    if thing.is_a("", "Secret") and thing.root["type"].value in (TOKEN_SECRET, UNKNOWN):
        yield thing.root["type"].refuse("secret", "remove it: such a token never expires")
