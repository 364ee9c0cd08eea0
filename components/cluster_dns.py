"""Whether the walls let tenants ask cluster DNS: who answers there, on which port, and what stands before it."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from lightkube.resources.core_v1 import Pod, Service

from components import names
from components.cluster_view import View
from components.dns import DnsSpec

NODE_DNS_ADDRESS = "169.254.20.10"
"""NodeLocal DNS answers here unless its arguments say otherwise."""

LABELS = ("k8s-app", "app.kubernetes.io/name", "dns.operator.openshift.io/daemonset-dns")
"""Labels by which distributions mark DNS pods."""

HELPERS = ("autoscaler", "node-local-dns")
"""Ends of names of what has DNS in its name and answers no pod by selector."""


def dns_warnings(view: View, dns: DnsSpec) -> Iterator[tuple[str, str]]:
    """Yield (key of `gpu-runtime:cluster`, what is wrong and what would be right)."""
    matched = [pod for pod in view.dns_pods if _running(pod) and _matches(dns.selector, pod)]
    if not matched and "dns_pods" not in view.forbidden:
        yield "dns.selector", _no_pod(view, dns)
    ports = sorted({port for service in view.dns_services for port in _targets(service, matched)} - set(dns.ports))
    if ports:
        said = ", ".join(map(str, ports))
        yield "dns.ports", f"add {said}: the pods of cluster DNS answer there, and the walls see the pods' own port"
    if missing := [address for address in _node_dns(view) if address not in dns.addresses]:
        said = ", ".join(missing)
        yield "dns.addresses", f"add {said}: NodeLocal DNS answers there, outside every pod that a selector could name"


def _no_pod(view: View, dns: DnsSpec) -> str:
    selector = ", ".join(f"{key}={value}" for key, value in dns.selector.items())
    said = f"{selector} matches no running pod in namespace {dns.namespace}, so that tenants resolve no name"
    if any(_matches(dns.selector, pod) for pod in view.dns_pods):
        return f"{said}; mend cluster DNS first"
    if like := sorted(set(_dns_like(view.dns_pods))):
        return f"{said}; pods there that look like DNS have {', '.join(like)}"
    return f"{said}; no pod there looks like DNS: set dns.namespace too (OpenShift: openshift-dns)"


def _dns_like(pods: Iterable[Pod]) -> Iterator[str]:
    for pod in pods:
        worn = (pod.metadata.labels if pod.metadata else None) or {}
        said = ((key, worn[key]) for key in LABELS if key in worn)
        yield from (f"{key}={name}" for key, name in said if "dns" in f"{key}{name}" and not name.endswith(HELPERS))


def _running(pod: Pod) -> bool:
    return bool(pod.status and pod.status.phase == "Running")


def _matches(selector: Mapping[str, str] | None, pod: Pod) -> bool:
    worn = (pod.metadata.labels if pod.metadata else None) or {}
    return bool(selector) and selector.items() <= worn.items()  # type: ignore[union-attr]  # nothing selects nothing


def _targets(service: Service, pods: list[Pod]) -> Iterator[int]:
    """Give the ports of the pods themselves where *service* leads to *pods* and answers as DNS."""
    behind = [pod for pod in pods if service.spec and _matches(service.spec.selector, pod)]
    said = (service.spec.ports if service.spec else None) or ()
    for port in said if behind else ():
        if port.port != names.DNS_PORT:
            continue
        target = port.targetPort if port.targetPort is not None else port.port
        yield from [target] if isinstance(target, int) else chain.from_iterable(_named(pod, target) for pod in behind)


def _named(pod: Pod, name: str) -> Iterator[int]:
    for container in pod.spec.containers if pod.spec else ():
        yield from (port.containerPort for port in container.ports or () if port.name == name)


def _node_dns(view: View) -> list[str]:
    """Read where NodeLocal DNS listens from its arguments: ``-localip 169.254.20.10,10.96.0.10``."""
    found: list[str] = []
    for daemon in view.node_dns:
        pod = daemon.spec.template.spec
        containers = pod.containers if pod else ()
        found += _local_ips([word for one in containers for word in one.args or ()]) or [NODE_DNS_ADDRESS]
    return list(dict.fromkeys(found))


def _local_ips(words: list[str]) -> list[str]:
    for index, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag.lstrip("-") == "localip":
            said = value if equals else "".join(words[index + 1 : index + 2])
            return [address.strip() for address in said.split(",") if address.strip()]
    return []
