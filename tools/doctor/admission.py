"""What only the API server's admission can answer, asked by dry runs: nothing is made."""

import time

import httpx2
from lightkube import ApiError, Client
from lightkube.core.resource import NamespacedResource
from lightkube.models.core_v1 import Container, PodSpec, SecurityContext, ServicePort, ServiceSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Pod, Service

from tools.doctor.findings import Finding, fail, ok, warn

CHECK = "Pod Security"

ACCOUNT_SECONDS = 10.0
"""Until a new namespace has its default service account, without which no pod is looked at; it takes a moment."""


def pod_security(client: Client, namespace: str) -> Finding:
    """Try a privileged pod in a *namespace* with the labels of a tenant: it must be turned away."""
    return judged(_refusal(client, _privileged(), namespace))


def judged(refusal: str | None) -> Finding:
    """Judge what was said to a privileged pod; None: it was let in."""
    if refusal is None:
        advice = "switch on the admission plugin PodSecurity: without it the namespaces' labels mean nothing"
        return fail(CHECK, "a privileged pod is let into a namespace with the label restricted", advice)
    if "violates PodSecurity" in refusal:
        return ok(CHECK, "a privileged pod is refused in a namespace with the label restricted")
    if "cannot create resource" in refusal:
        return warn(CHECK, "not tried: you may not make pods", "have somebody run doctor who may")
    advice = "see that the admission plugin PodSecurity is on"
    return warn(CHECK, f"a privileged pod is refused, but not by Pod Security: {refusal}", advice)


def node_port(client: Client, namespace: str, port: int) -> str | None:
    """Ask whether node port *port* can be had; None: yes, else why not."""
    service = Service(
        metadata=ObjectMeta(name="doctor"),
        spec=ServiceSpec(type="NodePort", selector={"a": "b"}, ports=[ServicePort(port=1337, nodePort=port)]),
    )
    return _refusal(client, service, namespace)


def _refusal(client: Client, thing: NamespacedResource, namespace: str) -> str | None:
    """Give what the API server says against *thing*, None where it would take it."""
    end = time.monotonic() + ACCOUNT_SECONDS
    while True:
        try:
            client.create(thing, namespace=namespace, dry_run=True)
        except ApiError as error:
            said = str(error)
            if error.response.status_code >= httpx2.codes.INTERNAL_SERVER_ERROR:
                raise
            if "error looking up service account" not in said or time.monotonic() > end:
                return said
            time.sleep(0.1)
        else:
            return None


def _privileged() -> Pod:
    container = Container(name="x", image="localhost/none", securityContext=SecurityContext(privileged=True))
    return Pod(metadata=ObjectMeta(name="doctor"), spec=PodSpec(containers=[container]))
