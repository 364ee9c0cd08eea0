"""The gate: says to the tunnel servers which client may announce which host (services/gate).

It is the one pod of the tier that speaks with the API server, and reads two kinds there: namespaces and Services.
"""

from collections.abc import Iterable, Mapping

import pulumi

from components import names, platform
from components.bundle import mount
from components.kube import metadata
from components.model import Manifest, requirements
from policy.baseline import container_security

GATE = "gate"
HOST = names.service_host(GATE, names.PLATFORM_NAMESPACE)
"""What the gate's certificate says; tunnel servers verify it."""

URL = f"https://{HOST}:{names.GATE_PORT}"

REPLICAS = 2
"""Who is asked while the gate is away is refused, so that it must not be away during a roll-out."""

RESOURCES = requirements({"cpu": "50m", "memory": "64Mi"}, {"cpu": "1", "memory": "192Mi"})
"""One thread: with a whole processor it answers some 500 questions a second, each by a handshake of its own. 29 MiB at
rest, 32 MiB with 2,000 units, 82 MiB after 200 questions at once."""

KEYS_DIR = "/keys"

API_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where every client of Kubernetes looks first."""

TOKEN_SECONDS = 3600
"""The kubelet renews the token when a fifth of this is left; ten minutes are the least that there is."""

ROLE = f"{names.PROJECT}-{GATE}"
"""Of the whole cluster: units are in as many namespaces as there are tenants, of stacks that come and go."""

READS = ("get", "list", "watch")


def _probe(path: str) -> Manifest:
    return {"httpGet": {"path": path, "port": GATE, "scheme": "HTTPS"}}


def gate_manifests(
    owners: tuple[str, ...], image: str, files: Mapping[str, pulumi.Input[str]], fingerprint: str
) -> dict[str, Manifest]:
    """Build the gate of the first of *owners*, which admits all of them.

    *files* are tls.crt, tls.key, key and bandwidth, of which the last two are read again when they change.
    """
    owner = owners[0]
    worn = platform.labels(owner, GATE, GATE)
    volumes = [platform.secret_volume("keys", GATE), api_volume()]
    return {
        **_rights(owner, worn),
        "gate-secret": platform.secret(owner, GATE, files),
        "gate": platform.deployment(
            worn, REPLICAS, _container(owners, image), volumes, fingerprint, serviceAccountName=GATE
        ),
        "gate-budget": platform.budget(owner, GATE),
    }


def gate_service(owner: str) -> Manifest:
    """Build the Service at which tunnel servers ask."""
    return platform.service(platform.labels(owner, GATE, GATE), names.GATE_PORT)


def _rights(owner: str, worn: names.Labels) -> dict[str, Manifest]:
    """Let the gate's own account read namespaces and Services, and nothing else."""
    group, version = "rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": [""], "resources": ["namespaces", "services"], "verbs": list(READS)}]
    subject = {"kind": "ServiceAccount", "name": GATE, "namespace": names.PLATFORM_NAMESPACE}
    bound = {"roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ROLE}, "subjects": [subject]}
    return {
        "gate-account": platform.service_account(owner, GATE),
        "gate-role": _of_cluster(version, "ClusterRole", worn, {"rules": rules}),
        "gate-binding": _of_cluster(version, "ClusterRoleBinding", worn, bound),
    }


def _of_cluster(version: str, kind: str, worn: names.Labels, body: Manifest) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": metadata(ROLE, None, worn), **body}


def api_volume() -> Manifest:
    """Give the gate a short-lived token and the authority of the API server."""
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    token = {"path": "token", "expirationSeconds": TOKEN_SECONDS}
    sources = [{"serviceAccountToken": token}, {"configMap": authority}]
    return {"name": "api", "projected": {"defaultMode": 0o440, "sources": sources}}


def _container(owners: Iterable[str], image: str) -> Manifest:
    return {
        "name": GATE,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            f"--listen=0.0.0.0:{names.GATE_PORT}",
            f"--key-file={KEYS_DIR}/key",
            f"--cert-file={KEYS_DIR}/tls.crt",
            f"--private-key-file={KEYS_DIR}/tls.key",
            f"--bandwidth-file={KEYS_DIR}/bandwidth",
            *(f"--owner={owner}" for owner in owners),
            f"--api-dir={API_DIR}",
            f"--metrics=0.0.0.0:{names.GATE_METRICS_PORT}",
        ],
        "ports": [
            {"name": GATE, "containerPort": names.GATE_PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": names.GATE_METRICS_PORT, "protocol": "TCP"},
        ],
        "readinessProbe": {**_probe("/healthz"), "periodSeconds": 2},
        "livenessProbe": {**_probe("/livez"), **platform.LIVENESS},
        "resources": RESOURCES,
        "securityContext": container_security(),
        "volumeMounts": [mount("keys", KEYS_DIR, read_only=True), mount("api", API_DIR, read_only=True)],
    }
