"""A cluster with tenants, storages and web ports, as whole objects of the API server."""

import base64
import hashlib
from typing import Any

from tests.services.api import NAMESPACES, SECRETS, SERVICES, SLICES, Store

Json = dict[str, Any]

OWNER = "dev"
PASSWORD = "correct-horse"


def labels(component: str, instance: str, tenant: str, owner: str = OWNER) -> dict[str, str]:
    """Return the labels that the program gives its objects."""
    return {
        "app.kubernetes.io/name": f"gpu-runtime-{component}",
        "app.kubernetes.io/instance": instance,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": "gpu-runtime",
        "app.kubernetes.io/managed-by": "pulumi",
        "gpu-runtime/owner": owner,
        "gpu-runtime/tenant": tenant,
    }


def htpasswd(*users: str, password: str = PASSWORD) -> str:
    """Return the lines of *users*, who share a password."""
    digest = base64.b64encode(hashlib.sha1(password.encode()).digest()).decode()  # noqa: S324 - what Envoy takes
    return "".join(f"{user}:{{SHA}}{digest}\n" for user in users)


def namespace(name: str, owner: str = OWNER, **meta: Any) -> Json:
    """Return a tenant's namespace."""
    return {"metadata": {"name": name, "labels": labels("tenant", name, name, owner), **meta}}


def secret(home: str, lines: str, owner: str = OWNER, **meta: Any) -> Json:
    """Return the passwords of the tenant at *home*."""
    said = {"name": f"access-{home}", "namespace": "gpu-runtime-access", "labels": labels("access", home, home, owner)}
    return {"metadata": {**said, **meta}, "data": {"htpasswd": base64.b64encode(lines.encode()).decode()}}


def browser(storage: str, home: str, size: str = "1Gi", *, upload: str = "", **meta: Any) -> Json:
    """Return the Service of a storage's browser."""
    said = {"gpu-runtime/size": size, **({"gpu-runtime/upload": upload} if upload else {})}
    worn = labels("browser", storage, home)
    base = {"name": f"browser-{storage}", "namespace": home, "labels": worn, "annotations": said}
    return {"metadata": {**base, **meta}, "spec": {"ports": [{"name": "http", "port": 5000}]}}


def unit(name: str, home: str, web: str, mounts: str = "{}", **meta: Any) -> Json:
    """Return the Service of a unit."""
    said = {"gpu-runtime/web": web, "gpu-runtime/host": f"{name}.{home}.ssh.test", "gpu-runtime/mounts": mounts}
    worn = labels("unit", name, home)
    base = {"name": f"unit-{name}", "namespace": home, "labels": worn, "annotations": said}
    return {"metadata": {**base, **meta}, "spec": {"clusterIP": "None"}}


def endpoint(home: str, *addresses: str, ready: bool = True, **said: Any) -> Json:
    """Return one endpoint of a slice: a pod in *home*."""
    pod = {"kind": "Pod", "namespace": home, "name": "pod"}
    return {"addresses": list(addresses), "conditions": {"ready": ready}, "targetRef": pod, **said}


def endpoint_slice(service: Json, ports: dict[str, int], *endpoints: Json, suffix: str = "x7d2k") -> Json:
    """Return a slice of *service*, which has its labels, as Kubernetes makes it."""
    meta = service["metadata"]
    worn = {**meta["labels"], "kubernetes.io/service-name": meta["name"]}
    said = {"name": f"{meta['name']}-{suffix}", "namespace": meta["namespace"], "labels": worn}
    listed = [{"name": name, "port": number, "protocol": "TCP"} for name, number in ports.items()]
    return {"metadata": said, "addressType": "IPv4", "ports": listed, "endpoints": list(endpoints)}


def put_browser(store: Store, name: str, home: str, ip: str = "127.0.0.1", port: int = 5000, **said: Any) -> Json:
    """Put a browser with one ready pod into *store*; return its Service."""
    service = browser(name, home, **said)
    store.put_whole(SERVICES, service)
    store.put_whole(SLICES, endpoint_slice(service, {"http": port}, endpoint(home, ip)))
    return service


def put_tenant(store: Store, home: str, *users: str, password: str = PASSWORD) -> None:
    """Put a tenant with its passwords into *store*."""
    store.put_whole(NAMESPACES, namespace(home))
    store.put_whole(SECRETS, secret(home, htpasswd(*(users or ("alice",)), password=password)))
