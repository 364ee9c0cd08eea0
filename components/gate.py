"""The gate: says to the tunnel servers which client may announce which host (services/gate)."""

from collections.abc import Iterable, Mapping

import pulumi

from components import names, platform
from components.bundle import mount
from components.model import Manifest, requirements
from policy.baseline import container_security

GATE = "gate"
HOST = names.service_host(GATE, names.PLATFORM_NAMESPACE)
"""What the gate's certificate says; tunnel servers verify it."""

URL = f"https://{HOST}:{names.GATE_PORT}"

REPLICAS = 2
"""Who is asked while the gate is away is refused, so that it must not be away during a roll-out."""

RESOURCES = requirements({"cpu": "50m", "memory": "64Mi"}, {"cpu": "500m", "memory": "192Mi"})
"""28 MiB at rest, 85 MiB after 200 questions at once."""

KEYS_DIR = "/keys"
PROBE = {"httpGet": {"path": "/healthz", "port": GATE, "scheme": "HTTPS"}}


def gate_manifests(
    owners: tuple[str, ...], image: str, files: Mapping[str, pulumi.Input[str]], fingerprint: str
) -> dict[str, Manifest]:
    """Build the gate of the first of *owners*, which admits all of them.

    *files* are tls.crt, tls.key and key, of which the last is read again when it changes.
    """
    owner = owners[0]
    worn = platform.labels(owner, GATE, GATE)
    volumes = [platform.secret_volume("keys", GATE)]
    return {
        "gate-secret": platform.secret(owner, GATE, files),
        "gate": platform.deployment(worn, REPLICAS, _container(owners, image), volumes, fingerprint),
        "gate-service": platform.service(worn, names.GATE_PORT),
        "gate-budget": platform.budget(owner, GATE),
    }


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
            *(f"--owner={owner}" for owner in owners),
        ],
        "ports": [{"name": GATE, "containerPort": names.GATE_PORT, "protocol": "TCP"}],
        "readinessProbe": {**PROBE, "periodSeconds": 2},
        "livenessProbe": {**PROBE, "periodSeconds": 10, "failureThreshold": 6},
        "resources": RESOURCES,
        "securityContext": container_security(),
        "volumeMounts": [mount("keys", KEYS_DIR, read_only=True)],
    }
