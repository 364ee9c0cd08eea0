"""Names, labels, selectors and ports that two or more parts must agree on."""

PROJECT = "gpu-runtime"
"""Pulumi project, config prefix and first segment of our own labels."""

PLATFORM_NAMESPACE = "gpu-runtime"
ACCESS_NAMESPACE = "gpu-runtime-access"
"""Holds one password Secret per tenant; reserved here so that no tenant can take the name."""

COMPONENT_LABEL = "app.kubernetes.io/component"
TENANT_LABEL = f"{PROJECT}/tenant"
OWNER_LABEL = f"{PROJECT}/owner"
FLAVOR_LABEL = f"{PROJECT}/flavor"

HOST_ANNOTATION = f"{PROJECT}/host"
"""On a unit's Service: the host that the unit may announce; too long for a label."""

WEB_ANNOTATION = f"{PROJECT}/web"
"""On a unit's Service: names of the ports that the proxy leads to, with commas."""

MOUNTS_ANNOTATION = f"{PROJECT}/mounts"
"""On a unit's Service: storage to path as JSON, for who comes by SSH."""

SIZE_ANNOTATION = f"{PROJECT}/size"
"""On a browser's Service: the size of its storage, as the claim has it."""

UPLOAD_ANNOTATION = f"{PROJECT}/upload"
"""On a browser's Service that takes uploads: the most bytes of one request; without it, nothing is written."""

PROTECT_ANNOTATION = f"{PROJECT}/protect"
"""On a claim: `true` where its storage may not leave the stack."""

PREPARE_ANNOTATION = f"{PROJECT}/prepare"
"""On a claim: the Job that fills its volume; absent where nothing is to be prepared."""

REVISION_ANNOTATION = f"{PROJECT}/prepare-revision"
"""On a claim whose owner asked for the same content anew: how often."""

SHOWN_ANNOTATION = f"{PROJECT}/shown"
"""On a claim: `true` where its volume has a browser, so that one that is not there is missed."""

SSHD_PORT = 2222
"""sshd inside a unit: unprivileged, so above 1024."""

FORWARDING_FILE = "forwarding"
"""Beside a unit's authorized keys: `all` lets clients forward ports of theirs to the unit, too (ssh -R)."""

CONNECT_PORT = 1337
"""frps answers HTTP CONNECT here: the one port that clients reach."""

TUNNEL_PORT = 7000
"""Units' tunnel clients come here, to the door before frps."""

FRPS_TUNNEL_PORT = 7002
"""frps itself answers tunnel clients here, on loopback: only the door in front of it comes there."""

FRPS_CONNECT_PORT = 1338
"""frps itself answers HTTP CONNECT here, on loopback: only the entrance in front of it comes there."""

FRPS_API_PORT = 7500
"""frps says here, on loopback, which hosts lead through it; its companion asks."""

STATE_PORT = 7001
"""The companion of a tunnel server tells its peers and the kubelet here whether it is ready, and for which hosts."""

HEALTH_PORT = 1339
"""The entrance tells the kubelet here that it runs, however many clients it has."""

DOOR_HEALTH_PORT = 1340
"""The door for tunnel clients tells the kubelet here that it runs, and whether frps does."""

GATE_PORT = 9000
"""The gate authorises frps' clients here, over TLS."""

GATE_METRICS_PORT = 9001
"""The gate answers Prometheus here, without TLS; no row of the table of flows opens it yet."""

PROXY = "proxy"
"""The proxy's Deployment, Service and pods."""

PROXY_PORT = 8443
"""The proxy takes browsers here, over TLS; its Service says 443."""

PROXY_PLAIN_PORT = 8080
"""The proxy sends those who come without TLS to https; its Service says 80."""

PROXY_HEALTH_PORT = 8081
"""The proxy tells the kubelet here that it runs, and Prometheus how much; no row of the table of flows opens it yet."""

BROWSER_PORT = 5000
"""A storage's browser answers the proxy here."""

API_SERVER_PORTS = (443, 6443)
"""Where API servers answer: their Service, and those of most distributions at addresses of their own."""

DNS_PORT = 53
"""Where a Service or a cache on the node answers, wherever the pods behind it listen."""

KUBELET_PORT = 10250
"""On every node: runs commands in its pods."""

RESERVED_NAMESPACES = frozenset({"default", PLATFORM_NAMESPACE, ACCESS_NAMESPACE, "local-path-storage"})
RESERVED_PREFIXES = ("kube-", "openshift-", "gpu-runtime-")
"""Namespaces that belong to Kubernetes, a distribution or the platform."""

TENANT_SERVICE_ACCOUNT = "tenant"
"""Pods of a tenant run under it; it holds no right and mounts no token."""

PROBE_TENANT = f"{PROJECT}.probe"
"""The tenant that the probe plays; no user's tenant has a dot in its name."""

Labels = dict[str, str]


def component_type(kind: str) -> str:
    """Give the Pulumi type token of component *kind*."""
    return f"{PROJECT}:index:{kind}"


def labels(*, owner: str, component: str, instance: str, tenant: str | None = None) -> Labels:
    """Give the full label set of an object: the standard ones plus ours."""
    standard = {
        "app.kubernetes.io/name": f"{PROJECT}-{component}",
        "app.kubernetes.io/instance": instance,
        COMPONENT_LABEL: component,
        "app.kubernetes.io/part-of": PROJECT,
        "app.kubernetes.io/managed-by": "pulumi",
        OWNER_LABEL: owner,
    }
    return standard if tenant is None else {**standard, TENANT_LABEL: tenant}


def selector(component: str, instance: str) -> Labels:
    """Select the pods of one *instance* of *component* within their namespace."""
    return {COMPONENT_LABEL: component, "app.kubernetes.io/instance": instance}


def component_selector(component: str) -> Labels:
    """Select the pods of every instance of *component* within a namespace."""
    return {COMPONENT_LABEL: component}


def namespace_selector(namespace: str) -> dict[str, Labels]:
    """Select one namespace by the label that the API server itself sets, which nobody can claim."""
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}


def tenant_namespace(prefix: str, tenant: str) -> str:
    """Give the namespace of *tenant*."""
    return f"{prefix}{tenant}"


def unit(name: str) -> str:
    """Name the Deployment, Service, policies and budget of a unit."""
    return f"unit-{name}"


def unit_keys(name: str) -> str:
    """Name the ConfigMap of a unit's authorized keys."""
    return f"unit-{name}-keys"


def unit_host_key(name: str) -> str:
    """Name the Secret that only the unit's own container mounts."""
    return f"unit-{name}-host-key"


def unit_tunnel(name: str) -> str:
    """Name the Secret that only the unit's tunnel client mounts."""
    return f"unit-{name}-tunnel"


def unit_claim(name: str, digest: str) -> str:
    """Name the template of a unit's GPU claims; another claim is another name, and so another pod."""
    return f"unit-{name}-gpu-{digest[:8]}"


def claim(storage: str) -> str:
    """Name the volume claim of a storage."""
    return f"storage-{storage}"


def browser(storage: str) -> str:
    """Name the Deployment and the Service of a storage's browser."""
    return f"browser-{storage}"


def browser_path(namespace: str, storage: str) -> str:
    """Give the path below which a storage's files are, on every host and in the browser itself."""
    return f"/storage/{namespace}/{storage}"


def prepare_job(storage: str, digest: str) -> str:
    """Name the Job that fills a storage once; another content is another Job."""
    return f"prepare-{storage}-{digest[:10]}"


def probe_namespace(owner: str) -> str:
    """Give the namespace in which the stack *owner* proves its walls."""
    return f"{PROJECT}-probe-{owner}"


def probe_job(digest: str) -> str:
    """Name the Job that proves the walls of that *digest*, and its ConfigMap."""
    return f"probe-{digest[:10]}"


def frps(index: int) -> str:
    """Name tunnel server *index*, its Deployment and its Service."""
    return f"frps-{index}"


def access(namespace: str) -> str:
    """Name the Secret, in `ACCESS_NAMESPACE`, of those who may look at what a tenant's namespace has."""
    return f"access-{namespace}"


def index_host(namespace: str, host: str) -> str:
    """Give the origin of a tenant's index, below the proxy's main *host*."""
    return f"{namespace}.{host}"


def storage_host(storage: str, namespace: str, host: str) -> str:
    """Give the origin of a storage's browser."""
    return f"{storage}--{namespace}.{host}"


def port_host(port: str, unit: str, namespace: str, host: str) -> str:
    """Give the origin of a unit's port."""
    return f"{port}--{unit}--{namespace}.{host}"


def unit_host(host_label: str, namespace: str, suffix: str) -> str:
    """Give the name under which clients reach a unit; only the tunnel servers ever resolve it."""
    return f"{host_label}.{namespace}.{suffix}"


def service_host(service: str, namespace: str) -> str:
    """Give a Service's name in cluster DNS, independent of the cluster's domain."""
    return f"{service}.{namespace}.svc"
