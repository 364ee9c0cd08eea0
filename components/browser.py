"""A storage's browser: one dufs that shows the volume's files, and holds nothing that would be worth stealing.

A tenant writes what dufs reads, links that change under its eyes included, so that no check of dufs' own is what keeps
others' data safe: it sees one volume, has no token and no network beyond the proxy's questions, and cannot write.
"""

from components import names, walls
from components.browser_spec import BrowserSpec
from components.bundle import mount
from components.flows import Flow, browser_flows
from components.kube import SKIP_AWAIT, metadata
from components.model import Manifest, bytes_of, requirements
from components.storage_spec import Storage
from policy.baseline import POD_DEFAULTS, container_security, pod_security

BROWSER = "browser"
DATA = "/data"

REQUESTS = {"cpu": "10m", "memory": "32Mi"}
LIMITS = {"cpu": "1", "memory": "512Mi"}
"""A download that nobody reads holds half a MiB: a thousand fit, more than the proxy lets in."""

HIDDEN = ("lost+found", ".gpu-runtime")
"""Not shown, at any depth: what file systems and the prepare job keep for themselves."""

END_SECONDS = 5
"""dufs ends at once; who downloads goes on where it stopped (Range)."""


def browser_manifests(storage: Storage) -> dict[str, Manifest]:
    """Build the objects of a storage's browser; none where the storage has none."""
    said = storage.spec.browser
    if said is None:
        return {}
    return {**_walls(storage), "browser": _deployment(storage, said), "browser-service": _service(storage, said)}


def rows_of_browser(storage: Storage) -> list[Flow]:
    """Give the browser's rows of the table of flows; none where the storage has no browser."""
    return browser_flows(storage.namespace, storage.name) if storage.spec.browser else []


def _walls(storage: Storage) -> dict[str, Manifest]:
    made = walls.policies(storage.namespace, storage.labels(BROWSER), rows_of_browser(storage))
    return {f"{BROWSER}-policy": policy for policy in made.values()}


def _deployment(storage: Storage, said: BrowserSpec) -> Manifest:
    """Run it beside everything else: not waited for, since it may have to wait for the unit that has the volume."""
    labels = storage.labels(BROWSER)
    # where one node at a time can mount the volume, the old pod may have to go before the new one can start
    strategy = {"strategy": {"type": "Recreate"}} if storage.access_mode == "ReadWriteOnce" else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(names.browser(storage.name), storage.namespace, labels, SKIP_AWAIT),
        "spec": {
            "replicas": 1,
            **strategy,
            "selector": {"matchLabels": names.selector(BROWSER, storage.name)},
            "template": {"metadata": {"labels": labels}, "spec": _pod(storage, said)},
        },
    }


def _pod(storage: Storage, said: BrowserSpec) -> Manifest:
    run_as = storage.spec.run_as
    claim: Manifest = {"claimName": names.claim(storage.name)}
    if said.upload is None and storage.access_mode != "ReadWriteOnce":
        claim["readOnly"] = True  # of a volume that a unit has as well, drivers may take it as an order for the node
    return {
        **POD_DEFAULTS,
        **storage.placement.with_unit,
        "serviceAccountName": names.TENANT_SERVICE_ACCOUNT,
        "terminationGracePeriodSeconds": END_SECONDS,
        "securityContext": pod_security(run_as.uid, run_as.gid),
        "containers": [_container(storage, said)],
        "volumes": [{"name": "data", "persistentVolumeClaim": claim}],
    }


def _container(storage: Storage, said: BrowserSpec) -> Manifest:
    path = names.browser_path(storage.namespace, storage.name)
    asked = {"httpGet": {"path": f"{path}/__dufs__/health", "port": "http"}, "timeoutSeconds": 5}
    return {
        "name": BROWSER,
        "image": storage.browser_image,
        "imagePullPolicy": "IfNotPresent",
        "args": dufs_arguments(path, upload=said.upload is not None),
        "ports": [{"name": "http", "containerPort": names.BROWSER_PORT, "protocol": "TCP"}],
        "readinessProbe": {**asked, "periodSeconds": 5},
        "livenessProbe": {**asked, "periodSeconds": 20, "failureThreshold": 6},
        "resources": requirements(REQUESTS, LIMITS),
        "securityContext": container_security(),
        "volumeMounts": [mount("data", DATA, read_only=said.upload is None)],
    }


def dufs_arguments(path: str, *, upload: bool) -> list[str]:
    """Give dufs' command line: the files of `DATA` below *path*, to be found and taken as an archive, never deleted.

    It answers `<path>x` as well, which is another storage's: the proxy in front routes whole segments.
    """
    said = {"--port": str(names.BROWSER_PORT), "--path-prefix": path, "--hidden": ",".join(HIDDEN), "--log-format": ""}
    flags = ["--allow-search", "--allow-archive", *(["--allow-upload"] if upload else [])]
    return [DATA, *(f"{option}={value}" for option, value in said.items()), *flags]


def _service(storage: Storage, said: BrowserSpec) -> Manifest:
    told = {names.SIZE_ANNOTATION: storage.spec.size}
    if said.upload:
        told[names.UPLOAD_ANNOTATION] = str(bytes_of(said.upload.max_size))
    name = names.browser(storage.name)
    port = {"name": "http", "port": names.BROWSER_PORT, "targetPort": "http", "protocol": "TCP"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, storage.namespace, storage.labels(BROWSER), {**SKIP_AWAIT, **told}),
        "spec": {"type": "ClusterIP", "selector": names.selector(BROWSER, storage.name), "ports": [port]},
    }
