"""What the program sees of a cluster before it makes anything there: addresses, DNS, what may not be seen."""

import time
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from lightkube import Client
from lightkube.config.kubeconfig import KubeConfig

from components.cluster import UnreachableError
from components.cluster_dns import dns_warnings
from components.cluster_ranges import unlisted, unreached
from components.cluster_view import View, look
from components.dns import DnsSpec

KUBE_SYSTEM = DnsSpec()

LISTS = {
    "/api/v1/nodes": "nodes",
    "/api/v1/namespaces/default/services": "services",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": "slices",
    "/apis/networking.k8s.io/v1/servicecidrs": "service_cidrs",
    "/api/v1/namespaces/kube-system/pods": "dns_pods",
    "/api/v1/namespaces/kube-system/services": "dns_services",
    "/apis/apps/v1/namespaces/kube-system/daemonsets": "node_dns",
    "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies": "admin_tier",
}
"""Path to the name of the question; anything else is a question that nobody meant to ask."""

CONFIG = KubeConfig.from_dict(
    {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
)


def client(answer: Callable[[httpx2.Request], httpx2.Response]) -> Client:
    """Connect to what *answer* plays."""
    return Client(config=CONFIG.get("x"), transport=httpx2.MockTransport(answer))


def status(code: int) -> httpx2.Response:
    """Refuse as an API server does."""
    return httpx2.Response(code, json={"kind": "Status", "message": f"no: {code}", "code": code})


def seen(dns: DnsSpec = KUBE_SYSTEM, **objects: Any) -> View:
    """Look at a cluster that has *objects*; a number in their place is the status of the answer."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        said = objects.get(LISTS[request.url.path], [])
        if isinstance(said, int):
            return status(said)
        if wanted := request.url.params.get("labelSelector"):
            said = [one for one in said if matches(one, wanted)]
        return httpx2.Response(200, json={"items": said, "metadata": {}})

    with client(answer) as connected:
        return look(connected, dns, admin_tier="admin_tier" in objects)


def matches(thing: Any, selector: str) -> bool:
    """Judge a label selector of equalities."""
    pairs = dict(pair.split("=", 1) for pair in selector.split(","))
    return bool(pairs.items() <= thing["metadata"].get("labels", {}).items())


def node(pods: list[str], **addresses: str) -> Any:
    """Give a Node with ranges for pods and addresses by type."""
    said = [{"type": kind, "address": address} for kind, address in addresses.items()]
    return {"metadata": {"name": "n"}, "spec": {"podCIDRs": pods}, "status": {"addresses": said}}


def pod(labels: dict[str, str], *, ip: str = "10.244.0.2", phase: str = "Running", **port: Any) -> Any:
    """Give a Pod with one port."""
    container = {"name": "dns", "ports": [{"name": "dns", "containerPort": 53, **port}]}
    state = {"phase": phase, "podIPs": [{"ip": ip}]}
    return {"metadata": {"name": "p", "labels": labels}, "spec": {"containers": [container]}, "status": state}


def service(*ips: str, selector: dict[str, str] | None = None, target: int | str | None = None) -> Any:
    """Give a Service on port 53."""
    port = {"port": 53, "protocol": "UDP", **({} if target is None else {"targetPort": target})}
    return {"metadata": {"name": "s"}, "spec": {"clusterIPs": list(ips), "selector": selector, "ports": [port]}}


def api_server(address: str) -> Any:
    """Give the EndpointSlice of the Service `kubernetes`."""
    labels = {"kubernetes.io/service-name": "kubernetes"}
    ends = [{"addresses": [address]}]
    return {"addressType": "IPv4", "metadata": {"name": "kubernetes", "labels": labels}, "endpoints": ends}


KUBE_DNS = {"k8s-app": "kube-dns"}
DNS_SERVICE = service("10.96.0.10", selector=KUBE_DNS, target="dns")
HEALTHY: dict[str, Any] = {"dns_pods": [pod(KUBE_DNS)], "dns_services": [DNS_SERVICE]}


def test_private_and_listed_addresses_are_known() -> None:
    """What the built-in lists or the stack file hold is blocked already: nothing to say."""
    view = seen(
        nodes=[node(["10.244.0.0/24", "fd00:1::/64"], InternalIP="192.168.7.1", ExternalIP="8.8.4.4", Hostname="n")],
        services=[service("34.118.224.1")],
        **HEALTHY,
    )

    assert list(unlisted(view, ["34.118.224.0/20", "8.8.4.0/25", "8.8.4.128/25"])) == []


def test_every_public_range_that_no_list_has_is_named_with_its_key() -> None:
    """The operator gets the line to add: ranges merged, one address as such, both families; a pod on a node is none."""
    on_node = pod(KUBE_DNS, ip="8.8.4.1")
    on_node["spec"]["hostNetwork"] = True
    view = seen(
        nodes=[node(["34.118.0.0/25", "2600:1::/64"], InternalIP="8.8.4.1"), node(["34.118.0.128/25"])],
        services=[service("34.118.224.1")],
        service_cidrs=[{"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["34.118.224.0/20", "fd00::/112"]}}],
        slices=[api_server("35.1.2.3")],
        dns_pods=[pod(KUBE_DNS, ip="34.119.0.9"), on_node],
    )

    assert {key: text.partition(", or ")[0] for key, text in unlisted(view, [])} == {
        "podCidrs": "add 34.118.0.0/24, 34.119.0.9/32, 2600:1::/64",
        "serviceCidrs": "add 34.118.224.0/20",
        "nodeCidrs": "add 8.8.4.1/32",
        "apiServerCidrs": "add 35.1.2.3/32",
    }


@pytest.mark.parametrize(
    ("cidrs", "ports", "said"),
    [
        (["35.1.2.3/32"], [443, 6443], {}),
        (["35.1.0.0/16"], [6443], {}),
        ([], [6443], {"apiServerCidrs": "add 35.1.2.3/32: "}),
        (["35.1.2.4/32"], [443], {"apiServerCidrs": "add 35.1.2.3/32: ", "apiServerPorts": "add 6443: "}),
    ],
)
def test_the_gate_must_find_the_api_server(cidrs: list[str], ports: list[int], said: dict[str, str]) -> None:
    """Where the API server answers and no row leads the gate, the operator gets what to add."""
    view = seen(slices=[{**api_server("35.1.2.3"), "ports": [{"port": 6443}]}])

    found = dict(unreached(view, cidrs, ports))
    assert {key: text.partition("the API")[0] for key, text in found.items()} == said


def test_a_range_that_is_listed_in_part_is_named() -> None:
    """Half a range in a list leaves the other half open."""
    view = seen(nodes=[node(["34.118.0.0/17"])])

    assert [key for key, _ in unlisted(view, ["34.118.0.0/18"])] == ["podCidrs"]


def test_an_api_server_on_a_node_is_said_once() -> None:
    """The same address under two keys would be two errands for one hole."""
    view = seen(nodes=[node([], InternalIP="8.8.4.1")], slices=[api_server("8.8.4.1")])

    assert [key for key, _ in unlisted(view, [])] == ["nodeCidrs"]


def with_nodes(count: int) -> View:
    """Give a cluster of so many nodes, each of which has an address that nobody listed."""
    spread = range(count)
    return seen(
        nodes=[node([f"10.{n // 256}.{n % 256}.0/24"], ExternalIP=f"34.{n // 127}.{n % 127 * 2}.7") for n in spread]
    )


def test_many_nodes_make_one_short_message() -> None:
    """Five thousand nodes: the first few addresses and a count."""
    ((key, text),) = unlisted(with_nodes(5000), [])

    assert (key, text.partition(", or ")[0]) == (
        "nodeCidrs",
        "add 34.0.0.7/32, 34.0.2.7/32, 34.0.4.7/32, 34.0.6.7/32, 34.0.8.7/32 and 4995 more",
    )


def test_eight_times_the_nodes_are_no_square() -> None:
    """The work grows with the nodes: a square would take sixty-four times as long."""
    seconds = []
    for count in (500, 4000):
        view, begun = with_nodes(count), time.process_time()
        assert len(list(unlisted(view, []))) == 1
        seconds.append(time.process_time() - begun)

    assert seconds[1] < 32 * seconds[0]


def test_a_long_list_is_read_to_its_end() -> None:
    """A cluster that answers in pages is asked for every page."""
    pages = {None: node(["10.0.0.0/24"]), "more": node(["34.118.0.0/24"])}

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path != "/api/v1/nodes":
            return httpx2.Response(200, json={"items": [], "metadata": {}})
        page = request.url.params.get("continue")
        return httpx2.Response(200, json={"items": [pages[page]], "metadata": {} if page else {"continue": "more"}})

    with client(answer) as connected:
        assert [key for key, _ in unlisted(look(connected, DnsSpec(), admin_tier=False), [])] == ["podCidrs"]


def test_what_may_not_be_listed_is_told_and_no_refusal() -> None:
    """A deployer without the right to list nodes may deploy; what nobody could check is said."""
    view = seen(nodes=403, dns_pods=403, service_cidrs=404)

    assert view.unseen == ["nodes", "pods in the namespace of cluster DNS"]
    assert list(unlisted(view, [])) == list(dns_warnings(view, DnsSpec())) == []


def test_a_cluster_that_breaks_off_is_unreachable() -> None:
    """An answer that is neither a list nor a refusal is no answer: one error, whichever question met it."""
    with pytest.raises(UnreachableError, match="no: 503"):
        seen(slices=503)


@pytest.mark.parametrize(
    ("answer", "served"), [([], ()), (404, None)], ids=["served and empty", "not known to the cluster"]
)
def test_the_admin_tier_asked_for_when_wanted(answer: Any, served: object) -> None:
    """A cluster that serves ClusterNetworkPolicy and has none is another answer than one that does not know it."""
    assert seen(admin_tier=answer).admin_tier == served


def warned(dns: DnsSpec = KUBE_SYSTEM, **objects: Any) -> dict[str, str]:
    """Give the warnings about DNS by key."""
    return dict(dns_warnings(seen(dns, **objects), dns))


def test_dns_as_the_stack_file_says_is_no_news() -> None:
    """A selector that matches and a port that is open: nothing to say; neither about a Service that is not DNS."""
    metrics = {"port": 9153, "targetPort": 9153}
    other = {"metadata": {"name": "m"}, "spec": {"clusterIPs": ["None"], "selector": KUBE_DNS, "ports": [metrics]}}

    assert warned(dns_pods=[pod(KUBE_DNS)], dns_services=[DNS_SERVICE, other]) == {}


def test_a_selector_that_matches_nothing_gets_advice() -> None:
    """The warning names the labels that DNS pods have there, and not those of its helpers."""
    there = [pod({"k8s-app": name}) for name in ("coredns", "coredns-autoscaler", "node-local-dns", "kube-proxy")]
    text = warned(dns_pods=there)["dns.selector"]

    assert text.startswith("k8s-app=kube-dns matches no running pod in namespace kube-system")
    assert text.endswith("pods there that look like DNS have k8s-app=coredns")


def test_a_namespace_without_dns_is_said() -> None:
    """Where nothing looks like DNS the namespace is wrong too."""
    assert "set dns.namespace too" in warned(dns_pods=[pod({"k8s-app": "kube-proxy"})])["dns.selector"]


def test_dns_that_does_not_run_is_no_question_of_selectors() -> None:
    """A right selector whose pods are pending: the advice is to mend DNS, not the selector."""
    assert "mend cluster DNS first" in warned(dns_pods=[pod(KUBE_DNS, phase="Pending")])["dns.selector"]


@pytest.mark.parametrize(("target", "port"), [(8053, 8053), ("dns", 5353)], ids=["by number", "by name"])
def test_the_port_of_the_pods_counts(target: int | str, port: int) -> None:
    """Policies see a packet after the Service turned it round: the pods' own port must be open."""
    behind = pod(KUBE_DNS, containerPort=5353)
    services = [service("10.96.0.10", selector=KUBE_DNS, target=target), service("10.96.0.11", selector={"a": "b"})]
    objects: dict[str, Any] = {"dns_pods": [behind], "dns_services": services}

    assert warned(**objects)["dns.ports"].startswith(f"add {port}: ")
    assert warned(DnsSpec(ports=(53, port)), **objects) == {}


@pytest.mark.parametrize(
    ("arguments", "addresses"),
    [
        ([], ["169.254.20.10"]),
        (["-localip", "169.254.25.10,10.96.0.10", "-conf", "/etc/Corefile"], ["169.254.25.10", "10.96.0.10"]),
        (["--localip=169.254.25.10"], ["169.254.25.10"]),
    ],
    ids=["default", "two words", "one word"],
)
def test_node_local_dns_is_named_by_its_addresses(arguments: list[str], addresses: list[str]) -> None:
    """NodeLocal DNS is no pod that a selector names: each of its addresses must be listed."""
    template = {"spec": {"containers": [{"name": "cache", "args": arguments}]}}
    daemon = {
        "metadata": {"name": "d", "labels": {"k8s-app": "node-local-dns"}},
        "spec": {"selector": {}, "template": template},
    }
    objects = {**HEALTHY, "node_dns": [daemon]}

    assert warned(**objects)["dns.addresses"].startswith(f"add {', '.join(addresses)}: ")
    assert warned(DnsSpec(addresses=tuple(addresses)), **objects) == {}
