"""Certificates that a proxy did not get from its stack: what cert-manager would be asked, and what lies in Secrets."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from lightkube.codecs import from_dict
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.core_v1 import Pod

from components import names
from e2e.browsing import HOST, opened
from e2e.world import World, wait_until
from tests.services.world import Authority

GROUP = "cert-manager.io"
Certificate = create_namespaced_resource(GROUP, "v1", "Certificate", "certificates")

_TEXT = {"type": "string"}
_ISSUER = {"type": "object", "required": ["name"], "properties": {"name": _TEXT, "kind": _TEXT, "group": _TEXT}}
_SPEC = {
    "type": "object",
    "required": ["issuerRef", "secretName"],
    "properties": {"issuerRef": _ISSUER, "secretName": _TEXT, "dnsNames": {"type": "array", "items": _TEXT}},
}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"certificates.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "Certificate", "listKind": "CertificateList", "plural": "certificates"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}}},
            }
        ],
    },
}
"""The part of cert-manager's API that is used here; whatever is not in it is refused."""


def define(world: World) -> None:
    """Have the API server know what cert-manager is asked for."""
    world.cluster.create(from_dict(DEFINITION))

    def known() -> bool:
        found = world.cluster.get(CustomResourceDefinition, DEFINITION["metadata"]["name"]).status
        conditions = (found and found.conditions) or []
        return any(one.type == "Established" and one.status == "True" for one in conditions)

    wait_until(known, "the API server to know certificates")


def give(world: World, secret: str, authority: Authority) -> None:
    """Put a certificate of *authority*, for all origins, into a Secret of the platform's."""
    certificate, key = authority.issue(f"*.{HOST}")
    said = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret, "namespace": names.PLATFORM_NAMESPACE},
        "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": certificate.read_text(), "tls.key": key.read_text()},
    }
    world.cluster.apply(from_dict(said), field_manager="by-hand", force=True)


HANDSHAKES = 8
"""That all replicas answer some of."""


def serves(world: World, host: str, port: int, trusted: Path) -> bool:
    """Say whether who trusts nobody but the authority in *trusted* finds *host*, whichever replica answers."""
    with suppress(OSError):
        for _ in range(HANDSHAKES):
            opened(world, host, port, trusted).close()
        return True
    return False


def hasten(world: World, pods: list[Any]) -> None:
    """Have the kubelet look at *pods* now, as any change of them does; else it does so every minute or so."""
    for pod in pods:
        said = {"metadata": {"annotations": {"gpu-runtime/looked-at": str(time.monotonic_ns())}}}
        world.cluster.patch(Pod, pod.metadata.name, said, namespace=pod.metadata.namespace)
