"""The matrix measured: real sockets from every pod of a stack on a rig, at the places that the computed one names."""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from lightkube.codecs import from_dict
from lightkube.resources.core_v1 import Pod as Running
from lightkube.resources.core_v1 import Service

from e2e.netns import Try, finish, listening, pid_of, space_of, start
from e2e.world import World, wait_until
from policy.baseline import POD_DEFAULTS, container_security, pod_security
from policy.ends import Address, Pod
from stacks.resolve import Stack
from tools.rig.enforcement import settle, unenforced
from tools.rig.outside import SPACE, outside
from tools.stack.reading import read_file
from tools.walls.matrix import OUTSIDE, Cell, Matrix, matrix
from tools.walls.places import NODE_PORT, Place, internet
from tools.walls.site import Site

STAND_IN = "stand-in"
"""Label of pods that stand for those of a Job that has ended: the same labels, and so the same walls."""

HOSTS = frozenset({"metadata", "blocked", "site", "allowed", "internet", "tunnel server"})
"""Groups whose addresses are hosts that we bring along."""

TIMES = 3
"""That the silent are asked, where an answer is expected: a busy machine answers late."""

Key = tuple[str, Try]
"""A source and what it tries: the same in every matrix of a stack."""


@dataclass(frozen=True)
class Ground:
    """A stack on a rig with a running pod for each pod that it renders."""

    world: World
    stack: Stack
    pods: Mapping[str, Running]
    """By the name that the evaluator gives."""

    @cached_property
    def pids(self) -> dict[str, int]:
        """Give the number of a process of each pod, cluster DNS' included."""
        found = {**self.pods, "dns": self._dns}
        return {name: pid_of((pod.metadata and pod.metadata.uid) or "") for name, pod in found.items()}

    @cached_property
    def node(self) -> int:
        """Give the number of a process of the node."""
        return self.world.rig._first_process()

    @cached_property
    def site(self) -> Site:
        """Say where everything is."""
        net = self.world.rig.network
        return Site(
            pod=lambda pod: addresses(self.pods[pod.name]),
            service=lambda name: self._service(*name.split("/")),
            dns=addresses(self._dns),
            dns_service=self._service("kube-system", "kube-dns"),
            api_service=self._service("default", "kubernetes"),
            nodes=tuple(one for one in (net.node_ip, net.node_ip6) if one),
        )

    @property
    def _dns(self) -> Running:
        (pod,) = self.world.cluster.list(Running, namespace="kube-system", labels={"k8s-app": "kube-dns"})
        return pod

    def _service(self, namespace: str, name: str) -> tuple[Address, ...]:
        service = self.world.cluster.get(Service, name, namespace=namespace)
        return tuple(ip_address(one) for one in (service.spec and service.spec.clusterIPs) or ())

    def matrix(self, manifests: Sequence[Any] | None = None) -> Matrix:
        """Compute the matrix at the addresses that things have here."""
        return matrix(self.stack, self.site, manifests)


def addresses(pod: Running) -> tuple[Address, ...]:
    """Give the addresses of a running pod."""
    said = (pod.status and pod.status.podIPs) or ()
    return tuple(ip_address(one.ip) for one in said if one.ip)


@contextmanager
def ground(world: World) -> Iterator[Ground]:
    """Give *world*'s stack ready to be measured: pods that have ended stand again, and nothing is on its way."""
    stack = read_file(world.workspace.config_file, world.workspace.stack)
    rendered = [source.pod for source in matrix(stack).sources if source.pod]
    image = stack.config.images["python"]
    try:
        for pod in (pod for pod in rendered if not _running(world, pod)):
            world.cluster.create(from_dict(_idle(f"{STAND_IN}-{pod.name.partition('/')[2]}", pod, image)))
        wait_until(lambda: all(_running(world, pod) for pod in rendered), "every pod to run")
        settle(world.rig)
        yield Ground(world, stack, _assigned(world, rendered))
    finally:
        for one in [*world.cluster.list(Running, namespace="*", labels={STAND_IN: "yes"})]:
            if one.metadata and one.metadata.name:
                world.cluster.delete(Running, one.metadata.name, namespace=one.metadata.namespace)


def _running(world: World, pod: Pod) -> list[Running]:
    """Give the running pods that carry all labels of the rendered *pod*."""
    labels = dict(pod.labels.value or {})
    found = world.cluster.list(Running, namespace=pod.namespace, labels=labels)
    return [one for one in found if one.status and one.status.phase == "Running" and addresses(one) and _stays(one)]


def _stays(pod: Running) -> bool:
    return pod.metadata is not None and pod.metadata.deletionTimestamp is None


def _assigned(world: World, rendered: Sequence[Pod]) -> dict[str, Running]:
    """Give each rendered pod a running one of its own."""
    found: dict[str, Running] = {}
    for pod in rendered:
        used = {one.metadata.uid for one in found.values() if one.metadata}
        found[pod.name] = next(one for one in _running(world, pod) if one.metadata and one.metadata.uid not in used)
    return found


def _idle(name: str, like: Pod, image: str) -> dict[str, Any]:
    """Build a pod that does nothing and wears the labels of *like*."""
    labels = {**(like.labels.value or {}), STAND_IN: "yes"}
    resources = {"cpu": "10m", "memory": "32Mi"}
    container = {
        "name": "idle",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", "import signal; signal.pause()"],
        "resources": {"requests": resources, "limits": resources},
        "securityContext": container_security(),
    }
    security, meta = pod_security(65532, 65532), {"name": name, "namespace": like.namespace, "labels": labels}
    spec = {**POD_DEFAULTS, "terminationGracePeriodSeconds": 0, "securityContext": security, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@contextmanager
def answered(ground: Ground, places: Sequence[Place]) -> Iterator[None]:
    """Have somebody answer at every place where that can be: hosts outside, listeners in pods and on the node."""
    hosts = [place for place in places if place.group in HOSTS and possible(ground, place)]
    ports = {kind: sorted({place.port for place in hosts if place.protocol == kind}) for kind in ("TCP", "UDP")}
    named = dict.fromkeys(str(place.address) for place in hosts)
    with (
        listening(_listeners(ground, places)),
        outside(ground.world.rig, *named, ports=ports["TCP"], udp_ports=ports["UDP"]),
    ):
        yield


def _listeners(ground: Ground, places: Sequence[Place]) -> dict[int, list[Try]]:
    """Say who must listen where: a pod at its own addresses, the node at its own."""
    homes = {one: ground.pids[name] for name, pod in ground.pods.items() for one in addresses(pod)}
    homes |= dict.fromkeys(ground.site.dns, ground.pids["dns"]) | dict.fromkeys(ground.site.nodes, ground.node)
    wanted: dict[int, list[Try]] = defaultdict(list)
    for place in places:
        if place.address in homes and not place.name.startswith(NODE_PORT):
            wanted[homes[place.address]].append(attempt(place))
    return wanted


def attempt(place: Place) -> Try:
    """Say how to try *place*."""
    return str(place.address), place.port, place.protocol


def possible(ground: Ground, place: Place) -> bool:
    """Say whether a host could answer there: not at an address that is no host's, nor among the cluster's own."""
    address, net = place.address, ground.world.rig.network
    nobodys = address.is_multicast or address.is_loopback or address.is_unspecified
    scoped = address.version == 6 and address.is_link_local
    own = any(
        address in one for one in (net.pods, net.services, net.nodes, net.pods6, net.services6, net.nodes6) if one
    )
    return not (nobodys or scoped or own)


def opened(ground: Ground, cells: Sequence[Cell], only: Container[Key] | None = None) -> dict[Key, bool]:
    """Try *cells*, or those in *only*, from where they begin, all at once; say which opened."""
    wanted: dict[str, list[Try]] = defaultdict(list)
    for name, one in dict.fromkeys(key(cell) for cell in cells):
        if only is None or (name, one) in only:
            wanted[name].append(one)
    with answered(ground, list(dict.fromkeys(cell.place for cell in cells))):
        _forget(ground)
        begun = {name: _begin(ground, name, tries) for name, tries in wanted.items()}
        found = {name: finish(process) for name, process in begun.items()}
    return {(name, one): said for name, tries in wanted.items() for one, said in zip(tries, found[name], strict=True)}


def measured(ground: Ground, cells: Sequence[Cell], known: Container[Key]) -> dict[Key, bool]:
    """Try those of *cells* that are *known* to answer; who is silent where all is computed open is asked again."""
    found = opened(ground, cells, known)
    for _ in range(TIMES - 1):
        late = {key(cell) for cell in cells if cell.open and found.get(key(cell)) is False}
        found |= opened(ground, cells, late) if late else {}
    return found


def _forget(ground: Ground) -> None:
    """Drop what the node remembers of datagrams: one from the same port, by chance, would be no new connection."""
    for family in ("ipv4", "ipv6"):
        ground.world.rig.exec("conntrack", "-D", "-f", family, "-p", "udp", check=False)  # 1: there was none


def proved(ground: Ground, cells: Sequence[Cell]) -> frozenset[Key]:
    """Give what opens while nobody enforces anything: of all else, that it is closed would prove nothing.

    Who is silent is asked again: a busy machine answers late, a place that is not there never.
    """
    found: frozenset[Key] = frozenset()
    with unenforced(ground.world.rig):
        for _ in range(TIMES):
            silent = [cell for cell in cells if key(cell) not in found]
            found |= {one for one, said in opened(ground, silent).items() if said}
    return found


def key(cell: Cell) -> Key:
    """Name a cell."""
    return cell.source.name, attempt(cell.place)


def differing(cells: Sequence[Cell], found: Mapping[Key, bool]) -> list[str]:
    """Say which cells were measured, and are not as computed."""
    return [
        f"{cell.source.name} -> {cell.place.group}: {cell.place.name} {attempt(cell.place)}: "
        f"{'computed open, measured closed' if cell.open else 'computed closed, measured open'}; {cell.why}"
        for cell in cells
        if found.get(key(cell), cell.open) != cell.open
    ]


def _begin(ground: Ground, source: str, tries: Sequence[Try]) -> Any:
    """Begin from a pod, or from the internet's own address in the hosts' namespace."""
    if source != OUTSIDE:
        return start(space_of(ground.pids[source]), tries)
    own = {version: address for version in (4, 6) if (address := internet(ground.stack, version))}
    return start(Path(f"/proc/{ground.node}/root/run/netns/{SPACE}"), tries, own)
