"""The gate on a real API server: what it believes of the cluster, and what its end does to those who work."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Pod, Service
from status.states import Ssh

from components import names
from e2e.test_main_job import gate_log
from e2e.world import BOTH, WITH_PACK, World, attempt, rolled_out, wait_until
from tools import toolchain
from tools.stack.reading import read_file
from tools.status.rows import rows

UNIT, ALIAS, NAMESPACE = "unit-other", "other.lab-a", "lab-a"
GATES: dict[str, Any] = {"app.kubernetes.io/component": "gate"}


@contextmanager
def working(world: World) -> Iterator["subprocess.Popen[str]"]:
    """Give a session that says what it is sent, for as long as it lives."""
    argv = ["ssh", "-F", str(world.workspace.ssh_config), "-o", "BatchMode=yes", ALIAS, "--", "cat"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
        try:
            assert answers(session)
            yield session
        finally:
            session.kill()


def answers(session: "subprocess.Popen[str]") -> bool:
    """Tell whether what is written into the session comes back."""
    assert session.stdin is not None
    assert session.stdout is not None
    session.stdin.write("ping\n")
    session.stdin.flush()
    return session.stdout.readline() == "ping\n"


def both_refuse(world: World) -> bool:
    """Tell whether neither gate lets a new session in."""
    return not any(world.comes_in(ALIAS) for _ in range(BOTH))


def both_let_in(world: World) -> bool:
    """Tell whether the gates are those that shall be, and each lets new sessions in."""
    return rolled_out(world, "gate") and world.comes_in(ALIAS, BOTH)


def fresh(service: Service) -> Service:
    """Give a Service as somebody would write it anew, with all that it says of itself."""
    assert service.metadata is not None
    assert service.spec is not None
    meta = service.metadata
    said = ObjectMeta(name=meta.name, namespace=meta.namespace, labels=meta.labels, annotations=meta.annotations)
    spec = service.spec
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        setattr(spec, field, None)
    return Service(metadata=said, spec=spec)


def test_a_unit_without_a_service_takes_no_new_session(world: World) -> None:
    """From the moment that its Service is gone, with its pod and tunnel running on; its open session lives.

    Status says so, whatever the tunnel says.

    Once the Service is back, so are sessions; one of the same labels in a namespace that is nobody's changes nothing.
    """
    service = world.cluster.get(Service, UNIT, namespace=NAMESPACE)
    with working(world) as session:
        world.cluster.delete(Service, UNIT, namespace=NAMESPACE)
        try:
            wait_until(lambda: both_refuse(world), "both gates to refuse new sessions")
            wait_until(lambda: "there is no unit 'other' in 'lab-a'" in gate_log(world), "the gate to say why")
            assert state(world) == (Ssh.PENDING, "NoService")
            assert answers(session)
            by_hand = fresh(service)
            assert by_hand.metadata is not None
            by_hand.metadata.namespace = "default"
            world.cluster.create(by_hand)
            assert both_refuse(world)
            world.cluster.delete(Service, UNIT, namespace="default")
        finally:
            world.cluster.create(fresh(service))
        wait_until(lambda: both_let_in(world), "new sessions to be let in again, by both gates")
        wait_until(lambda: state(world) == (Ssh.REACHABLE, "Announced"), "status to tell that a login works")
        assert answers(session)


def test_killed_gates_cut_nobody(world: World) -> None:
    """Both gates are killed in the middle of a session: it lives, and later sessions are let in by the next gates."""
    with working(world) as session:
        before = {pod.metadata.name for pod in gates(world) if pod.metadata}
        for name in before:
            world.cluster.delete(Pod, str(name), namespace=names.PLATFORM_NAMESPACE, grace_period=0)
        assert answers(session)
        wait_until(lambda: both_let_in(world), "the next gates to let everybody in")
        assert answers(session)
        assert before.isdisjoint({pod.metadata.name for pod in gates(world) if pod.metadata})


def test_while_no_gate_answers_status_says_so(world: World) -> None:
    """Without a gate the open session lives, nobody new gets in, and `make status` says both; then all is as before."""
    with working(world) as session:
        wait_until(lambda: state(world) == (Ssh.REACHABLE, "Announced"), "status to tell that a login works")
        before = world.cluster.get(Deployment, "gate", namespace=names.PLATFORM_NAMESPACE).spec.replicas
        try:
            scale(world, 0)
            wait_until(lambda: state(world) == (Ssh.PENDING, "NoGate"), "status to tell that no gate answers")
            wait_until(lambda: not world.comes_in(ALIAS), "the last gate to end, which still answers whom it knows")
            assert answers(session)
        finally:
            scale(world, before or 1)
        wait_until(lambda: state(world) == (Ssh.REACHABLE, "Announced"), "status to tell that a login works")
        wait_until(lambda: both_let_in(world), "logins at both gates")
        assert answers(session)


def scale(world: World, replicas: int) -> None:
    """Have so many gates."""
    world.cluster.patch(Deployment, "gate", {"spec": {"replicas": replicas}}, namespace=names.PLATFORM_NAMESPACE)


def state(world: World, unit: str = "other") -> tuple[Ssh, str]:
    """Give what `make status` says of a login, and why."""
    found = rows(world.cluster, read_file(world.workspace.config_file, world.workspace.stack))
    return next((row.state.ssh.state, row.state.ssh.reason) for row in found if row.unit == unit)


def gates(world: World) -> list[Pod]:
    """Give the gate's pods."""
    return list(world.cluster.list(Pod, namespace=names.PLATFORM_NAMESPACE, labels=GATES))


def test_only_gate_and_proxy_may_ask_the_cluster(world: World) -> None:
    """Of the platform's pods gate and proxy alone have a token; the gate's lets it read two kinds, and no more."""
    pods = list(world.cluster.list(Pod, namespace=names.PLATFORM_NAMESPACE))
    with_token = {
        (pod.metadata.labels or {})[names.COMPONENT_LABEL]
        for pod in pods
        if pod.metadata and pod.spec
        for volume in pod.spec.volumes or ()
        if volume.projected and any(source.serviceAccountToken for source in volume.projected.sources or ())
    }
    assert with_token == {"gate", "proxy"}
    kubectl = [str(toolchain.ensure("kubectl")["kubectl"]), f"--kubeconfig={world.rig.kubeconfig}", "auth", "can-i"]
    account = f"--as=system:serviceaccount:{names.PLATFORM_NAMESPACE}:gate"
    listed = [*kubectl, "--list", "--no-headers", account]
    rights = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.splitlines()
    kinds = {line.split()[0]: line for line in rights if "selfsubject" not in line and "[/" not in line}
    assert set(kinds) == {"namespaces", "services"}
    assert all(line.endswith("[get list watch]") for line in kinds.values())


def test_a_unit_gets_ports_and_loses_them(world: World) -> None:
    """The same Service gets them and gives them back; a login works each time."""

    def change(config: dict[str, Any]) -> None:
        config["gpu-runtime:tenants"]["lab-a"]["units"]["other"]["ports"] = [{"name": "http", "port": 8888}]

    uid, _ = service_after_up(world)
    with world.changed(change):
        assert service_after_up(world) == (uid, [8888])
    assert service_after_up(world) == (uid, [])


def service_after_up(world: World) -> tuple[str | None, list[int]]:
    """Bring the stack up; give uid and ports of the unit's Service, once somebody can log in."""
    status, said = attempt(world.engine(RESTART=ALIAS), "up", "--yes", *WITH_PACK)
    assert status == 0, said
    wait_until(lambda: world.comes_in(ALIAS), "a login")
    service = world.cluster.get(Service, UNIT, namespace=NAMESPACE)
    ports = (service.spec.ports if service.spec else None) or []
    return service.metadata.uid if service.metadata else None, [port.port for port in ports]
