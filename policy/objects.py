"""See a manifest as the law does: an object with its pod and containers, whatever kind carries them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from policy.baseline import PLATFORM_LABEL, TENANT_LABEL
from policy.field import Field
from policy.plain import UNKNOWN, Unknown

CLUSTERED: Final = frozenset({("", "Namespace"), ("policy.networking.k8s.io", "ClusterNetworkPolicy")})
"""Kinds (group, kind) that walls rest on and that no namespace holds, whatever an object of theirs says."""

Identity = tuple[str | Unknown, str | Unknown]
"""Namespace, empty for a kind that has none, and name."""

POD_PATHS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): ("spec", "template"),
    **{
        (group, kind): ("spec", "template")
        for group in ("apps", "extensions")
        for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
    },
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}
"""Where each pod-bearing kind (group, kind) keeps its pod; `extensions` is what old manifests say for `apps`."""

_ROLES: Final = {
    "containers": "container",
    "initContainers": "init container",
    "ephemeralContainers": "ephemeral container",
}


class Container:
    """A container of any list of a pod, named as a message names it."""

    def __init__(self, field: Field, role: str) -> None:
        self.field = field
        self.role = "sidecar" if role == "init container" and field["restartPolicy"].value == "Always" else role
        self.security = field["securityContext"]
        name = field["name"].value
        self.who = f'{self.role} "{name}"' if isinstance(name, str) else f"{self.role} {field.key}"


class Pod:
    """A pod or a pod template."""

    who: Final = "pod"

    def __init__(self, field: Field) -> None:
        self.spec = field["spec"]
        self.labels = field.at("metadata", "labels")
        self.annotations = field.at("metadata", "annotations")
        self.security = self.spec["securityContext"]
        self.containers = tuple(Container(item, role) for key, role in _ROLES.items() for item in self.spec[key].each())
        self.bearers: tuple[Pod | Container, ...] = (self, *self.containers)
        """All that carry a securityContext."""


class Object:
    """One Kubernetes object, read once for all checks."""

    def __init__(self, root: Field, source: int = 0) -> None:
        self.root = root
        self.source = source
        self.api_version = root["apiVersion"]
        self.kind = _text(root["kind"])
        self.group = _text(self.api_version).rpartition("/")[0]
        self.metadata = root["metadata"]
        self.name = _text(self.metadata["name"]) or _text(self.metadata["generateName"])

    @property
    def namespace(self) -> str:
        """Return the namespace as it is said, empty when it is not."""
        return _text(self.metadata["namespace"])

    @cached_property
    def home(self) -> str | None:
        """Return the namespace that the object ends up in; None when nobody knows."""
        value = self.metadata["namespace"].value
        return "default" if value in (None, "") else value if isinstance(value, str) else None

    @cached_property
    def identity(self) -> Identity | None:
        """Return what no other object of the kind shares; None where the API server makes up the name."""
        name = self.metadata["name"].value
        home = "" if (self.group, self.kind) in CLUSTERED else UNKNOWN if self.home is None else self.home
        return None if name in (None, "") else (home, name if isinstance(name, str) else UNKNOWN)

    @cached_property
    def pod(self) -> Pod | None:
        """Return the pod that the object is or brings about."""
        path = POD_PATHS.get((self.group, self.kind))
        return None if path is None else Pod(self.root.at(*path))

    @property
    def containers(self) -> tuple[Container, ...]:
        """Return all containers of the pod, none when the object bears no pod."""
        return self.pod.containers if self.pod else ()

    def is_a(self, group: str, kind: str) -> bool:
        """Say whether the object is of that kind of that API group, in any version."""
        return self.kind == kind and self.group == group


class World:
    """All objects that are judged together."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self.objects = objects

    @cached_property
    def namespaces(self) -> tuple[Object, ...]:
        """Return the Namespaces."""
        return tuple(item for item in self.objects if item.is_a("", "Namespace"))

    @cached_property
    def platform(self) -> frozenset[str]:
        """Return the platform's namespaces, of twins each; any other is treated as a tenant's."""
        others = {item.name for item in self.namespaces if not _is_platform(item)}
        return frozenset(item.name for item in self.namespaces) - others

    @cached_property
    def policies(self) -> tuple[Object, ...]:
        """Return the NetworkPolicies."""
        return tuple(item for item in self.objects if item.is_a("networking.k8s.io", "NetworkPolicy"))


def objects(manifest: Any, source: int = 0) -> list[Object]:
    """Return the objects of *manifest*, plain data: itself, or the items of a list, down to the innermost."""
    return list(_expanded(Field(manifest), source))


def _expanded(root: Field, source: int, assumed: tuple[str, Any] = ("", None)) -> Iterator[Object]:
    kind = root["kind"].value or assumed[0]
    if isinstance(kind, str) and kind.endswith("List") and root["items"].value is not None:
        item = ("" if kind == "List" else kind.removesuffix("List"), root["apiVersion"].value)
        for field in root["items"].each():
            yield from _expanded(field, source, item if item[0] else ("", None))
    else:
        yield Object(_completed(root, assumed), source)


def _completed(root: Field, assumed: tuple[str, Any]) -> Field:
    """Items of a typed list may leave out what the list's own kind says."""
    if not assumed[0] or not isinstance(root.value, dict):
        return root
    said = {key: value for key, value in root.value.items() if value is not None}
    return Field({"kind": assumed[0], "apiVersion": assumed[1]} | said, root.parent, root.key)


def _is_platform(namespace: Object) -> bool:
    labels = namespace.metadata["labels"]
    key, value = PLATFORM_LABEL
    return labels[key].value == value and labels[TENANT_LABEL].value is None


def _text(field: Field) -> str:
    return field.value if isinstance(field.value, str) else ""
