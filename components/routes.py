"""The container beside each Envoy that tells it what there is, and its rights to learn that (services/routes).

It is the one container of the proxy with a token, and reads namespaces, Services and EndpointSlices everywhere, and
Secrets where nothing but passwords to compare with lies.
"""

from dataclasses import dataclass

from components import names, platform, walls
from components.bundle import mount
from components.gate import API_DIR, READS, api_volume
from components.kube import metadata
from components.model import Manifest, requirements
from policy.baseline import container_security

ROUTES = "routes"
ROUTES_DIR = "/run/routes"
ROUTES_FILE, CLUSTERS_FILE = "routes.json", "clusters.json"
"""What it writes there, each replaced by renaming, clusters first."""

METRICS_SOCKET = "metrics.sock"
"""Where it tells its own numbers, beside those files."""

RESOURCES = requirements({"cpu": "20m", "memory": "64Mi"}, {"cpu": "500m", "memory": "256Mi"})

FILES_SIZE = "64Mi"
"""For both files, twice each while one is replaced; 1,000 storages take 2 MiB."""

START_SECONDS = 300
"""For the first view of the cluster; until then Envoy is not started, since it would refuse everybody."""

ROLE = f"{names.PROJECT}-{names.PROXY}"
GROUP, VERSION = "rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1"


@dataclass(frozen=True)
class Routes:
    """What the container is told."""

    image: str
    owners: tuple[str, ...]
    """The stack of the proxy first, then those that it admits."""
    host: str
    port: int
    pods: tuple[str, ...]
    """Where the cluster's pods have their addresses: nobody else is asked."""


def routes_container(routes: Routes) -> Manifest:
    """Build the sidecar; Envoy is started when both files are there."""
    first = {"exec": {"command": ["test", "-e", f"{ROUTES_DIR}/{ROUTES_FILE}"]}}
    return {
        "name": ROUTES,
        "image": routes.image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "args": [
            f"--folder={ROUTES_DIR}",
            f"--host={routes.host}",
            f"--port={routes.port}",
            *(f"--owner={owner}" for owner in routes.owners),
            *(f"--pod-cidr={cidr}" for cidr in routes.pods),
            f"--api-dir={API_DIR}",
        ],
        "startupProbe": {**first, "periodSeconds": 1, "failureThreshold": START_SECONDS},
        "resources": RESOURCES,
        "securityContext": container_security(),
        "volumeMounts": [mount(ROUTES, ROUTES_DIR), mount("api", API_DIR, read_only=True)],
    }


def routes_volumes() -> list[Manifest]:
    """Give the volumes of the sidecar, of which Envoy mounts the first."""
    return [{"name": ROUTES, "emptyDir": {"medium": "Memory", "sizeLimit": FILES_SIZE}}, api_volume()]


def access_namespace(owner: str) -> dict[str, Manifest]:
    """Build the namespace that holds nothing but passwords to compare with, one Secret for each tenant."""
    worn = platform.labels(owner, names.PROXY, names.ACCESS_NAMESPACE)
    return {
        "access-namespace": platform.namespace(owner, names.ACCESS_NAMESPACE),
        "access-default-deny": walls.default_deny(names.ACCESS_NAMESPACE, worn),
    }


def routes_manifests(routes: Routes) -> dict[str, Manifest]:
    """Build the account of the proxy's pods and its rights; it reads passwords in their namespace alone."""
    owner, namespace = routes.owners[0], names.ACCESS_NAMESPACE
    worn = platform.labels(owner, names.PROXY, names.PROXY)
    subjects = [{"kind": "ServiceAccount", "name": names.PROXY, "namespace": names.PLATFORM_NAMESPACE}]
    seen = [
        {"apiGroups": [""], "resources": ["namespaces", "services"], "verbs": list(READS)},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": list(READS)},
    ]
    passwords = [{"apiGroups": [""], "resources": ["secrets"], "verbs": list(READS)}]
    whole, local = metadata(ROLE, None, worn), metadata(names.PROXY, namespace, worn)
    return {
        "account": platform.service_account(owner, names.PROXY),
        "role": {"apiVersion": VERSION, "kind": "ClusterRole", "metadata": whole, "rules": seen},
        "binding": {
            "apiVersion": VERSION,
            "kind": "ClusterRoleBinding",
            "metadata": whole,
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": ROLE},
            "subjects": subjects,
        },
        "passwords-role": {"apiVersion": VERSION, "kind": "Role", "metadata": local, "rules": passwords},
        "passwords-binding": {
            "apiVersion": VERSION,
            "kind": "RoleBinding",
            "metadata": local,
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": names.PROXY},
            "subjects": subjects,
        },
    }
