"""Turn manifests, plain data in Kubernetes' own words, into Pulumi resources."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module

import pulumi

from components.model import Manifest

SKIP_AWAIT = {"pulumi.com/skipAwait": "true"}
"""Annotation for kinds where the provider's wait tells nobody anything; a Service would cost ten seconds each."""

TAKE_OVER = {"pulumi.com/patchForce": "true"}
"""Annotation of every object: what is retained is adopted by a later life of the stack, whose field manager is another,
and so is what an interrupted run made. Whose objects they are is checked before (cluster.py), not by field managers."""

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


_Make = Callable[..., pulumi.CustomResource]


@cache
def _resource_class(api_version: str, kind: str) -> _Make:
    """Find pulumi-kubernetes' class by the words of the manifest; the module that holds it is loaded when needed.

    A kind that Kubernetes itself does not have is a custom resource.
    """
    group, _, version = api_version.rpartition("/")
    try:
        module = import_module(f"pulumi_kubernetes.{(group or 'core').partition('.')[0]}.{version}")
        found: _Make = getattr(module, kind)
    except (ModuleNotFoundError, AttributeError):
        custom = import_module("pulumi_kubernetes.apiextensions").CustomResource
        found = partial(custom, api_version=api_version, kind=kind)
    return found


@cache
def _snake(key: str) -> str:
    return _CAPITAL.sub("_", key).lower()


def _register_one(name: str, manifest: Manifest, options: pulumi.ResourceOptions) -> pulumi.CustomResource:
    """Register one object; only its top-level keys are renamed, what is nested reaches the cluster as written."""
    inputs = {_snake(key): value for key, value in manifest.items() if key not in {"apiVersion", "kind"}}
    return _resource_class(manifest["apiVersion"], manifest["kind"])(name, **inputs, opts=options)


def register(
    name: str,
    manifests: Mapping[str, Manifest],
    *,
    parent: pulumi.Resource | None = None,
    after: Sequence[pulumi.Resource] = (),
    options: Mapping[str, pulumi.ResourceOptions] | None = None,
    opts: pulumi.ResourceOptions | None = None,
) -> dict[str, pulumi.CustomResource]:
    """Register *manifests*, a table of role to object, as children of *parent* and after the resources in *after*.

    The role is part of the resource's name: renaming one replaces the object. *options* adds to single roles,
    *opts* to all.
    """
    own = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(parent=parent, depends_on=list(after)))
    extra = options or {}
    return {
        role: _register_one(f"{name}-{role}", manifest, pulumi.ResourceOptions.merge(own, extra.get(role)))
        for role, manifest in manifests.items()
    }


def metadata(
    name: str, namespace: str | None, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
) -> Manifest:
    """Give an object's metadata; the labels are copied, so that no two objects share a dict."""
    meta: Manifest = {"name": name, "labels": dict(labels), "annotations": {**TAKE_OVER, **(annotations or {})}}
    if namespace is not None:
        meta["namespace"] = namespace
    return meta
