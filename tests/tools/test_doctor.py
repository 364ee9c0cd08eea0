"""What doctor makes of a cluster: each check on plain objects, good and bad."""

import json
from collections.abc import Iterable
from typing import Any

import httpx2
import pytest
from lightkube import Client
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.apps_v1 import DaemonSet
from lightkube.resources.core_v1 import Node, Service
from lightkube.resources.storage_v1 import StorageClass

from components.cluster_view import View
from components.derive import Authority
from stacks.load import parse
from stacks.resolve import Stack
from tests.stack_files import FILES, SECRET, raw, served_by
from tools.doctor import __main__ as doctor
from tools.doctor import admission, walls
from tools.doctor.entrance import entrance
from tools.doctor.facts import Facts, gather
from tools.doctor.findings import Finding, as_json, fail, failed, ok, table, warn
from tools.doctor.gpus import gpus
from tools.doctor.plugins import plugin
from tools.doctor.rights import EVERYTHING, Right, needed, rights
from tools.doctor.room import room, room_owner
from tools.doctor.site import site
from tools.doctor.storage import storage
from tools.doctor.versions import image_volumes, versions
from tools.probe.fresh import Verdict
from tools.shell import ToolError

GPU = "nvidia.com/gpu"


def stack(**changes: Any) -> Stack:
    """Give the local stack: one running unit of flavor `simulated` (1 GPU), two storages of the default class."""
    said = raw(next(file for file in FILES if file.stem == "Pulumi.local"))
    said["tenants"]["lab-a"]["quota"] = {}
    return Stack(parse({**said, **changes}, {"gpu-runtime:secret", "gpu-runtime:serverToken"}), "local")


def made(kind: Any, said: Any) -> Any:
    """Give an object as the client would."""
    return kind.from_dict(said)


def node(*, version: str = "v1.34.1", taint: str | None = None, provider: str = "", **resources: str) -> Node:
    """Give a Node; a double underscore in a resource's name is a slash."""
    there = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", GPU: "4", **resources}
    spec = {"taints": [{"key": taint, "effect": "NoSchedule"}] if taint else [], "providerID": provider}
    info = dict.fromkeys(
        (
            "architecture",
            "bootID",
            "containerRuntimeVersion",
            "kernelVersion",
            "kubeProxyVersion",
            "machineID",
            "operatingSystem",
            "osImage",
            "systemUUID",
        ),
        "",
    )
    status = {"allocatable": there, "nodeInfo": {**info, "kubeletVersion": version}}
    found: Node = made(Node, {"metadata": {"name": "n", "labels": {"zone": "a"}}, "spec": spec, "status": status})
    return found


def daemon(name: str, container: str, image: str = "registry/x:v1.2.3", *args: str) -> DaemonSet:
    """Give a DaemonSet of one container."""
    pod = {"containers": [{"name": container, "image": image, "args": list(args)}]}
    said = {"metadata": {"name": name}, "spec": {"selector": {}, "template": {"spec": pod}}}
    found: DaemonSet = made(DaemonSet, said)
    return found


def facts(*nodes: Node, version: str = "v1.34.1", forbidden: tuple[str, ...] = (), **more: Any) -> Facts:
    """Give facts of a cluster with these nodes."""
    return Facts(version=version, view=View(nodes=nodes, forbidden=forbidden), **more)


def shown(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Give status and all text of each finding."""
    return [(str(one.status), f"{one.found} -> {one.advice}") for one in findings]


def only(findings: Iterable[Finding]) -> tuple[str, str]:
    """Give status and text of the one finding."""
    (one,) = shown(findings)
    return one


@pytest.mark.parametrize(
    ("server", "kubelet", "status"),
    [
        ("v1.29.0", "v1.29.0", "OK"),
        ("v1.33.5-gke.1", "v1.33.5-gke.1", "OK"),
        ("v2.0.0", "v2.0.0", "OK"),
        ("v1.28.9", "v1.28.9", "FAIL"),
        ("v1.30.0", "v1.28.9", "FAIL"),
        ("new", "v1.30.0", "FAIL"),
    ],
)
def test_every_version_must_know_sidecars(server: str, kubelet: str, status: str) -> None:
    """A kubelet older than sidecars breaks units as surely as an old API server does; what is unread counts as old."""
    found = only(versions(facts(node(version=kubelet), node(version=kubelet), version=server)))

    assert (found[0], server in found[1], f"2 nodes {kubelet}" in found[1]) == (status, True, True)


@pytest.mark.parametrize(("kubelet", "status"), [("v1.35.0", "OK"), ("v1.34.3", "WARN"), ("new", "WARN")])
def test_image_volumes_need_a_newer_one(kubelet: str, status: str) -> None:
    """Where the stack file says that nodes mount images, a node that is too old to do so by itself is told."""
    found = only(image_volumes(facts(node(version="v1.36.1"), node(version=kubelet), version="v1.36.1")))

    assert (found[0], kubelet in found[1]) == (status, status == "WARN")


def test_kubelets_that_may_not_be_seen_are_said() -> None:
    """Without a right on nodes half of the answer is missing, and nothing fails."""
    assert only(versions(facts(forbidden=("nodes",))))[0] == "WARN"


@pytest.mark.parametrize(
    ("daemons", "status", "said"),
    [
        ([daemon("cilium", "cilium-agent", "quay/cilium:v1.18.2@sha256:ab")], "OK", "Cilium v1.18.2; ranges of"),
        ([daemon("calico-node", "calico-node")], "OK", "Calico v1.2.3"),
        ([daemon("aws-node", "aws-eks-nodeagent", "r/a:v1", "--enable-network-policy=true")], "OK", "AWS VPC CNI v1"),
        ([daemon("aws-node", "aws-eks-nodeagent", "r/a:v1", "--enable-network-policy=false")], "WARN", "none that is"),
        ([daemon("kube-flannel-ds", "kube-flannel")], "FAIL", "Flannel v1.2.3 alone: it ignores"),
        ([daemon("canal", "calico-node"), daemon("canal", "kube-flannel")], "OK", "Calico v1.2.3"),
        ([daemon("x", "antrea-agent", "host:5000/antrea")], "OK", "Antrea (version unknown)"),
        ([daemon("fluentd", "fluentd")], "WARN", "none that is known here"),
        (None, "WARN", "you may not list daemonsets"),
    ],
)
def test_the_network_plugin_is_named(daemons: list[DaemonSet] | None, status: str, said: str) -> None:
    """Which plugin, which version, and what is known of it; one that enforces nothing fails by itself."""
    found = only(plugin(facts(daemon_sets=None if daemons is None else tuple(daemons))))

    assert (found[0], found[1][: len(said)]) == (status, said)


def test_k3s_has_its_own() -> None:
    """K3s enforces policies inside its own program: no DaemonSet shows that."""
    assert only(plugin(facts(node(version="v1.34.1+k3s1"))))[0] == "OK"


def classed(name: str, *, default: bool = False, grows: bool = True, mode: str = "WaitForFirstConsumer") -> Any:
    """Give a StorageClass."""
    worn = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    meta = {"name": name, "annotations": worn}
    said = {"metadata": meta, "provisioner": "p", "allowVolumeExpansion": grows, "volumeBindingMode": mode}
    return made(StorageClass, said)


@pytest.mark.parametrize(
    ("classes", "status", "said"),
    [
        ([classed("a", default=True), classed("b")], "OK", "a (the default), by p"),
        ([classed("a"), classed("b")], "FAIL", "use one of"),
        ([classed("a", default=True), classed("b", default=True)], "WARN", "2 are marked as default: a, b"),
        ([classed("a", default=True, grows=False)], "WARN", "cannot grow"),
        ([classed("a", default=True, mode="Immediate")], "WARN", "binds Immediate"),
        ([], "FAIL", "one of: none"),
        (None, "WARN", "you may not list storageclasses"),
    ],
)
def test_storages_without_a_class_need_a_default(classes: list[Any] | None, status: str, said: str) -> None:
    """The stack names no class: there must be one default, and what it cannot do is said."""
    found = only(storage(stack(), facts(storage_classes=None if classes is None else tuple(classes))))

    assert found[0] == status
    assert said.replace("use one of", "set gpu-runtime:storage.class to one of: a, b") in found[1]


def test_a_class_by_name_must_be_there() -> None:
    """A misspelt class would leave every claim pending: the names that there are are told."""
    named = stack(storage={"class": "fast"})

    assert only(storage(named, facts(storage_classes=(classed("slow", default=True),)))) == (
        "FAIL",
        "fast is not there -> use one of: slow",
    )
    assert only(storage(named, facts(storage_classes=(classed("fast"),))))[0] == "OK"


def flavored(nodes: Iterable[Node], **flavor: Any) -> tuple[str, str]:
    """Judge the stack's one flavor, changed, on these nodes."""
    sized = {"gpus": 1, "cpu": "4", "memory": "16Gi", "ephemeral": "1Gi", **flavor}
    return only(gpus(stack(flavors={"simulated": sized}), facts(*nodes)))


def test_a_flavor_that_finds_room_is_well() -> None:
    """Room is counted by the scarcest thing: two units of four CPUs on a node of eight, whatever its GPUs."""
    found = flavored([node()])

    assert (found[0], found[1].partition(" on ")[0]) == ("OK", "room for 2")


@pytest.mark.parametrize(
    ("nodes", "flavor", "said"),
    [
        ([node()], {"nodeSelector": {"zone": "b"}}, "no node has the labels zone=b"),
        ([node(taint="dedicated")], {}, "tainted (dedicated): give the flavor tolerations"),
        ([node(taint=GPU)], {"resource": "amd.com/gpu"}, f"tainted ({GPU})"),
        ([node()], {"resources": {"nvidia.com/mig-2g.20gb": 1}}, "no node has nvidia.com/mig-2g.20gb"),
        ([node(**{GPU: "0", "nvidia.com/mig-1g.10gb": "7"})], {}, "nodes have nvidia.com/mig-1g.10gb: set the flavor"),
        ([node(**{GPU: "0"})], {}, "install its device plugin"),
        ([node(), node()], {"gpus": 8}, "no room for 8 nvidia.com/gpu, 4 CPUs and 16Gi of memory"),
        ([node()], {"memory": "64Gi"}, "no room for"),
        ([], {}, "no node is there"),
    ],
)
def test_a_flavor_without_room_says_what_keeps_it_out(nodes: list[Node], flavor: dict[str, Any], said: str) -> None:
    """A unit that would stay pending is found before `up`, with the first thing that keeps it out."""
    found = flavored(nodes, **flavor)

    assert (found[0], said in found[1]) == ("FAIL", True), found


def test_nodes_tainted_by_their_gpus_depend_on_admission() -> None:
    """The taint that some clouds set and their admission lets GPU pods pass is a warning, no failure."""
    assert flavored([node(taint=GPU)])[0] == "WARN"


def test_nodes_whose_taints_a_flavor_tolerates_are_well() -> None:
    """A toleration covers its key and effect, and with Equal its value."""
    stands = {"key": GPU, "effect": "NoSchedule"}

    assert flavored([node(taint=GPU)], tolerations=[stands])[0] == "OK"
    assert flavored([node(taint=GPU)], tolerations=[{**stands, "effect": "NoExecute"}])[0] == "WARN"
    assert flavored([node(taint=GPU)], tolerations=[{**stands, "operator": "Equal", "value": "x"}])[0] == "WARN"


def test_shares_are_not_looked_for_on_nodes() -> None:
    """HAMi counts GPUs on nodes, and keeps their memory and cores to itself."""
    assert flavored([node()], resources={"nvidia.com/gpumem": 8000})[0] == "OK"


def test_claimed_devices_are_said_to_be_unseen() -> None:
    """What a driver hands out is not on the nodes: that nobody looked is said."""
    sized = {"cpu": "4", "memory": "16Gi", "claim": {"deviceClass": "gpu.nvidia.com"}}
    found = only(gpus(stack(flavors={"simulated": sized}), facts(node())))

    assert (found[0], "nobody looked for devices of class gpu.nvidia.com" in found[1]) == ("OK", True)


def test_a_flavor_that_no_unit_uses_only_warns() -> None:
    """What nobody runs may come later; without the right to see nodes nothing is known."""
    both = {
        "simulated": {"cpu": "1", "memory": "1Gi", "ephemeral": "1Gi"},
        "big": {"gpus": 9, "cpu": "1", "memory": "1Gi"},
    }

    assert [status for status, _ in shown(gpus(stack(flavors=both), facts(node())))] == ["OK", "WARN"]
    assert only(gpus(stack(), facts(forbidden=("nodes",))))[0] == "WARN"


def platform(**service: Any) -> Stack:
    """Give a stack with another entrance."""
    said = raw(next(file for file in FILES if file.stem == "Pulumi.local"))["platform"]
    return stack(platform={**said, "ssh": {**said["ssh"], "service": service}})


def free(_port: int) -> str | None:
    """Give every node port away."""
    return None


def test_a_load_balancer_needs_somebody_who_makes_it() -> None:
    """A cloud, MetalLB or an address that is there already; without evidence a warning."""
    wanted = platform(type="LoadBalancer")
    given = {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}
    there = made(Service, {"metadata": {"name": "ssh"}, "spec": {}, "status": given})

    assert only(entrance(wanted, facts(node()), free))[0] == "WARN"
    assert "the cloud (gce)" in only(entrance(wanted, facts(node(provider="gce://p/z/n")), free))[1]
    assert "metallb-speaker" in only(entrance(wanted, facts(daemon_sets=(daemon("metallb-speaker", "s"),)), free))[1]
    assert "lb.example.com" in only(entrance(wanted, facts(entrances=(there,)), free))[1]


def test_a_node_port_must_be_free_or_ours() -> None:
    """The API server says whether a port is in its range and free; one that the stack holds already is well."""
    wanted = platform(type="NodePort", nodePort=31337)
    held = made(Service, {"metadata": {"name": "ssh"}, "spec": {"ports": [{"port": 1337, "nodePort": 31337}]}})

    def taken(port: int) -> str:
        return f"{port}: provided port is already allocated"

    assert only(entrance(wanted, facts(), free))[0] == "OK"
    assert only(entrance(wanted, facts(), taken))[0] == "FAIL"
    assert only(entrance(wanted, facts(entrances=(held,)), taken))[0] == "OK"


def test_servers_elsewhere_need_no_way_in() -> None:
    """A stack whose tunnel servers are elsewhere makes no entrance."""
    given = raw(next(file for file in FILES if file.stem == "Pulumi.local"))["platform"]
    server = {"address": "203.0.114.7", "name": "frps.example.com", "ca": Authority(SECRET, 0, "away").certificate}
    said = {"platform": {**given, "ssh": served_by(server, given["ssh"])}, "serverToken": SECRET}
    away = stack(**said)

    assert "elsewhere" in only(entrance(away, facts(), free))[1]


def deployer(*had: Right) -> Any:
    """Give a deployer who has these rights, those in all namespaces also in each."""

    def allowed(asked: Iterable[Right]) -> set[Right]:
        return {right for right in asked if right in had or right.within("") in had}

    return allowed


def test_rights_are_those_of_the_stacks_own_objects() -> None:
    """What is asked for follows the manifests: verbs, groups and namespaces; nothing wider."""
    wanted = needed(stack().manifests())

    assert wanted[Right("apps", "deployments", "watch")] == {"gpu-runtime", "lab-a"}
    assert wanted[Right("networking.k8s.io", "networkpolicies", "patch")] > {"gpu-runtime", "lab-a"}
    assert wanted[Right("", "namespaces", "create")] == wanted[Right("", "persistentvolumeclaims", "list")] == set()
    assert wanted[Right("rbac.authorization.k8s.io", "roles", "create")] == {"gpu-runtime-access"}
    assert not {right.resource for right in wanted} & {"nodes", "*"}


def test_who_gives_a_right_must_have_it() -> None:
    """The gate may read units' Services everywhere: a deployer who may not cannot give it that right."""
    wanted = needed(stack().manifests())

    assert {right.verb for right, where in wanted.items() if right.resource == "services" and not where} == {
        "get",
        "list",
        "watch",
    }
    assert wanted[Right("rbac.authorization.k8s.io", "clusterroles", "create")] == set()


def test_an_administrator_is_asked_once() -> None:
    """Who may do everything is told by one question."""
    asked: list[Right] = []

    def allowed(some: Iterable[Right]) -> set[Right]:
        asked.extend(some)
        return {EVERYTHING}

    assert (only(rights(stack(), allowed))[0], asked) == ("OK", [EVERYTHING])


def test_rights_per_namespace_are_enough() -> None:
    """Roles in each namespace do as well as a role in all, but for what has no namespace."""
    wanted = needed(stack().manifests())
    narrow = [right.within(where) for right, places in wanted.items() for where in places or {""}]

    here = [right for right in narrow if right.resource != "namespaces"]

    assert only(rights(stack(), deployer(*narrow)))[0] == "OK"
    assert "may not create namespaces, " in only(rights(stack(), deployer(*here)))[1]
    assert only(rights(stack(), deployer(*wanted)))[0] == "OK"


def test_what_is_missing_is_named() -> None:
    """The first missing rights are named in kubectl's words, with their namespace, and the rest counted."""
    wanted = needed(stack().manifests())
    few = [right for right in wanted if right.resource != "secrets"]

    status, said = only(rights(stack(), deployer(*few)))
    assert (status, "create secrets in gpu-runtime, create secrets in gpu-runtime-access" in said) == ("FAIL", True)
    assert only(rights(stack(), deployer()))[1].count(",") == 5
    for resource, verb in (("pods/log", "get"), ("pods", "patch")):
        most = (right for right in wanted if (right.resource, right.verb) != (resource, verb))
        assert only(rights(stack(), deployer(*most)))[0] == "WARN"


@pytest.mark.parametrize(
    ("refusal", "status", "said"),
    [
        ('pods "x" is forbidden: violates PodSecurity "restricted:v1.36": privileged', "OK", "is refused in"),
        (None, "FAIL", "is let into"),
        ('User "u" cannot create resource "pods" in API group ""', "WARN", "not tried"),
        ("denied by some webhook", "WARN", "denied by some webhook"),
    ],
)
def test_a_privileged_pod_must_be_refused_by_pod_security(refusal: str | None, status: str, said: str) -> None:
    """Let in is a failure; refused for another reason proves nothing, and the reason is told."""
    found = only([admission.judged(refusal)])

    assert (found[0], said in found[1]) == (status, True)


def verdict(status: int, **summary: Any) -> Verdict:
    """Give what the probe's pod came to."""
    said = {"ok": not status, "targets": 33, "wrong": {}, "answeredMs": None, "apiServerAnsweredMs": None, **summary}
    return Verdict(status, f"a table\n{json.dumps(said)}\nthe walls...")


def test_walls_that_hold_from_the_first_moment() -> None:
    """Nothing forbidden ever answered: both findings are well."""
    assert [status for status, _ in shown(walls.judged(verdict(0)))] == ["OK", "OK"]


@pytest.mark.parametrize("measured", ["answeredMs", "apiServerAnsweredMs"])
def test_a_start_up_window_is_told_in_milliseconds(measured: str) -> None:
    """Walls that hold a moment too late are a warning with the longest time that was seen."""
    _, window = shown(walls.judged(verdict(0, **{measured: 1250})))

    assert (window[0], "for 1250 ms" in window[1]) == ("WARN", True)


def test_walls_that_are_ignored_fail() -> None:
    """The targets that answered are named."""
    status, said = only(walls.judged(verdict(1, wrong={"kubelet": "open"})))

    assert (status, "policies are not enforced" in said, "kubelet" in said) == ("FAIL", True, True)


def test_a_probe_whose_log_may_not_be_read_still_has_its_status() -> None:
    """Its end says that the walls hold; the window stays unknown, and that is said."""
    assert [status for status, _ in shown(walls.judged(Verdict(0, "")))] == ["OK", "WARN"]


def test_the_trial_is_a_tenant_of_its_own() -> None:
    """The probe runs in a namespace that no stack has, in a tenant's law and walls, and calls nothing by name."""
    trial = walls.Trial(stack(), room_owner("local"))
    kinds = [manifest["kind"] for manifest in trial.manifests]
    places = {manifest["metadata"].get("namespace") for manifest in trial.manifests[1:]}
    config = next(manifest for manifest in trial.manifests if manifest["kind"] == "ConfigMap")
    targets = json.loads(config["data"]["targets.json"])

    assert places == {trial.namespace["metadata"]["name"]}
    assert not places & set(stack().namespaces)
    assert (kinds[0], kinds[-1], "NetworkPolicy" in kinds) == ("Namespace", "Job", True)
    assert {"API server", "kubelet"} <= {target["name"] for target in targets}
    assert not [target for target in targets if target["host"].endswith(".svc")]


def test_the_programs_own_refusals_are_failures() -> None:
    """Doctor says of names, addresses and DNS what the program would say, each under its check, with what to do."""
    seen = Facts(view=View(nodes=(made(Node, {"metadata": {"name": "n"}, "spec": {"podCIDRs": ["34.118.0.0/17"]}}),)))
    found = {one.check: one for one in site(stack(), seen, [("namespace lab-a", "is not ours; choose another")])}

    assert {name: str(one.status) for name, one in found.items()} == {
        "addresses": "FAIL",
        "names": "FAIL",
        "cluster DNS": "WARN",
    }
    assert found["addresses"].advice == "in the stack file: gpu-runtime:cluster.podCidrs"
    assert (found["names"].found, found["names"].advice) == ("namespace lab-a is not ours", "choose another")


CONFIG = KubeConfig.from_dict(
    {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
)


class Cluster:
    """Keeps namespaces as an API server does, and remembers what was asked."""

    def __init__(self, **namespaces: dict[str, str]) -> None:
        self.namespaces = {name.replace("_", "-"): worn for name, worn in namespaces.items()}
        self.asked: list[str] = []

    def client(self) -> Client:
        """Connect to it."""
        return Client(config=CONFIG.get("x"), transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request.method)
        name = request.url.path.rpartition("/")[2]
        if request.method == "POST":
            meta = json.loads(request.content)["metadata"]
            self.namespaces[meta["name"]] = meta["labels"]
        elif name not in self.namespaces:
            return httpx2.Response(404, json={"kind": "Status", "message": "gone", "code": 404})
        worn = self.namespaces.pop(name) if request.method == "DELETE" else self.namespaces.get(name, {})
        return httpx2.Response(200, json={"metadata": {"name": name, "labels": worn}})


NAMESPACE: Any = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "trial", "labels": {"gpu-runtime/owner": "doctor-1"}},
}


@pytest.mark.parametrize("end", [None, KeyboardInterrupt, ValueError], ids=["well", "Ctrl-C", "an error"])
def test_the_room_is_gone_afterwards(end: type[BaseException] | None) -> None:
    """However it ends, nothing of doctor stays in the cluster; what a killed run left goes first."""
    cluster = Cluster(trial={"gpu-runtime/owner": "doctor-1"})
    with cluster.client() as client:
        try:
            with room(client, NAMESPACE) as name:
                assert list(cluster.namespaces) == [name]
                if end:
                    raise end
        except (KeyboardInterrupt, ValueError) as error:
            assert type(error) is end  # noqa: PT017 - what else would hide it?

    assert cluster.namespaces == {}


def test_a_namespace_of_somebody_else_is_left_alone() -> None:
    """A namespace of that name without our label is neither used nor removed."""
    cluster = Cluster(trial={"team": "x"})
    with cluster.client() as client, pytest.raises(ToolError, match="is not ours"), room(client, NAMESPACE):
        pass

    assert (list(cluster.namespaces), set(cluster.asked)) == (["trial"], {"GET"})


def test_daemon_sets_nearby_are_a_second_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may not list DaemonSets everywhere may do so where network plugins mostly are."""
    monkeypatch.setattr("tools.doctor.facts._version", lambda _client: "v1.34.1")
    nearby = daemon("cilium", "cilium-agent").to_dict()

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/apis/apps/v1/daemonsets":
            return httpx2.Response(403, json={"kind": "Status", "message": "no", "code": 403})
        items = [nearby] if request.url.path.endswith("/kube-system/daemonsets") else []
        return httpx2.Response(200, json={"items": items, "metadata": {}})

    with Client(config=CONFIG.get("x"), transport=httpx2.MockTransport(answer)) as client:
        found = gather(client, stack())

    assert [one.metadata.name for one in found.daemon_sets or () if one.metadata] == ["cilium"]
    assert found.storage_classes == ()


FINDINGS = [ok("a", "well"), warn("long name", "odd " * 60, "look"), fail("b", "bad", "mend")]


def test_the_table_is_readable() -> None:
    """One line for each finding, advice below it, nothing wider than a terminal, and a count at the end."""
    lines = table(FINDINGS).splitlines()

    assert lines[0] == "OK    a          well"
    assert max(map(len, lines)) <= 120
    assert lines[-3:] == ["FAIL  b          bad", "                 -> mend", "1 OK, 1 WARN, 1 FAIL"]


def test_json_is_a_line_for_each_finding() -> None:
    """Programs read the same four fields."""
    assert json.loads(as_json(FINDINGS).splitlines()[2]) == {
        "check": "b",
        "status": "FAIL",
        "found": "bad",
        "advice": "mend",
    }


@pytest.mark.parametrize(("findings", "status"), [(FINDINGS[:2], 0), (FINDINGS, 1)], ids=["warned of", "failed"])
def test_the_exit_status_tells(monkeypatch: pytest.MonkeyPatch, findings: list[Finding], status: int) -> None:
    """0: may go on; 1: something must be mended."""
    monkeypatch.setattr("sys.argv", ["doctor", "--stack", "dev"])
    monkeypatch.setattr(doctor, "read_stack", lambda _: None)
    monkeypatch.setattr(doctor, "examine", lambda _: findings)

    assert (doctor.main(), failed(findings)) == (status, bool(status))


def test_who_cannot_be_asked_is_another_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """2: no kubeconfig, no cluster or no stack file; one sentence says which, and nothing is on standard output."""
    away = raw(next(file for file in FILES if file.stem == "Pulumi.local"))["cluster"]
    monkeypatch.setattr("sys.argv", ["doctor"])
    monkeypatch.setattr(doctor, "read_stack", lambda _: stack(cluster={**away, "kubeconfig": "/nowhere"}))

    assert doctor.main() == doctor.CANNOT_ASK
    said = capsys.readouterr()
    assert (said.out, said.err.startswith("error: the cluster cannot be asked (kubeconfig /nowhere")) == ("", True)
