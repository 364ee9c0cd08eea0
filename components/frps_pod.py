"""One tunnel server: its Deployment and its Service. Several are made, and one rolls at a time."""

from collections.abc import Mapping, Sequence

from components import names, platform
from components.bundle import mount
from components.entrance import companion_container, entrance_container
from components.entrance_config import GRACE_SECONDS
from components.entry import spread
from components.frp_config import PKI_DIR
from components.kube import SKIP_AWAIT, metadata
from components.model import Manifest, requirements
from components.tunnel_door import ALIVE_PATH, door_container
from policy.baseline import container_security

FRPS = "frps"
CONFIG_DIR = "/config"

RESOURCES = requirements({"cpu": "100m", "memory": "64Mi"}, {"cpu": "2", "memory": "512Mi"})
"""Every byte of every session passes here; memory is bounded because frps grows with lost clients (frp issue 4802)."""

SOFT_MEMORY = "400MiB"
"""From here on Go collects harder, so that a burst of sessions does not reach the limit."""

END_SECONDS = 30
"""Beside the drain: for HAProxy, the companion, the door and frps to end in turn."""


def drain_of(deployment: Manifest) -> int:
    """Read from a tunnel server's Deployment for how many seconds its sessions may go on."""
    pod = deployment["spec"]["template"]["spec"]
    return int(pod["terminationGracePeriodSeconds"]) - GRACE_SECONDS - END_SECONDS


def server_deployment(
    worn: names.Labels, images: Mapping[str, str], drain: int, fingerprint: str, gate: Manifest
) -> Manifest:
    """Build the Deployment of the tunnel server that *worn* names; *images* are of frp and entrance.

    HAProxy is the pod's program, all else are sidecars: a pod that ends drains HAProxy first, and door and frps carry
    its sessions until HAProxy is gone. *gate* is the line of /etc/hosts by which frps finds the gate, whom it
    asks at each CONNECT: with a name to look up, nobody could log in while cluster DNS is away.
    """
    name = worn["app.kubernetes.io/instance"]
    volumes = [{"name": "config", "configMap": {"name": FRPS}}, platform.secret_volume("pki", FRPS)]
    companion = companion_container(images["entrance"], name)
    made = platform.deployment(
        worn,
        1,
        entrance_container(images["entrance"]),
        volumes,
        fingerprint,
        initContainers=[_frps(images["frp"]), door_container(images["entrance"]), companion],
        hostAliases=[gate],
        terminationGracePeriodSeconds=drain + GRACE_SECONDS + END_SECONDS,
        topologySpreadConstraints=[spread(FRPS)],
    )
    # a unit has one client per server: beside the old pod a new one would wait for clients in vain
    made["spec"]["strategy"] = {"type": "Recreate"}
    return made


def _frps(image: str) -> Manifest:
    return {
        "name": FRPS,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "command": ["/usr/bin/frps", "-c", f"{CONFIG_DIR}/frps.toml"],
        # Go trusts what these name, and nothing else: so frps verifies the gate
        "env": [
            {"name": "SSL_CERT_FILE", "value": f"{PKI_DIR}/ca.crt"},
            {"name": "SSL_CERT_DIR", "value": "/nonexistent"},
            {"name": "GOMEMLIMIT", "value": SOFT_MEMORY},
        ],
        "livenessProbe": {"httpGet": {"path": ALIVE_PATH, "port": names.DOOR_HEALTH_PORT}, **platform.LIVENESS},
        "resources": RESOURCES,
        "securityContext": container_security(),
        "volumeMounts": [mount("config", CONFIG_DIR, read_only=True), mount("pki", PKI_DIR, read_only=True)],
    }


def server_service(worn: names.Labels) -> Manifest:
    """Lead units and peers to this one server, also while it is not ready: it becomes so by the units that come."""
    name = worn["app.kubernetes.io/instance"]
    ports: Sequence[tuple[str, int]] = (("tls", names.TUNNEL_PORT), ("state", names.STATE_PORT))
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, names.PLATFORM_NAMESPACE, worn, SKIP_AWAIT),
        "spec": {
            "type": "ClusterIP",
            "publishNotReadyAddresses": True,
            "selector": names.selector(FRPS, name),
            "ports": [{"name": said, "port": port, "targetPort": port, "protocol": "TCP"} for said, port in ports],
        },
    }
