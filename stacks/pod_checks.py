"""Problems of what a unit asks of its pod: probes, how it ends, where it runs."""

from collections.abc import Iterator

from components import names
from components.flavor import Flavor
from components.health import CheckSpec
from components.unit_spec import LONGEST_GRACE, UnitSpec, seconds
from stacks.problems import Problem


def pod_problems(path: str, unit: UnitSpec, flavor: Flavor | None) -> Iterator[Problem]:
    """Yield the problems of the unit written at *path*; a flavor that is refused itself is None."""
    for name, check in unit.probes.checks.items():
        yield from _probe(f"{path}.probes.{name}", name, check, unit)
    yield from _grace(path, unit)
    yield from _start(path, unit)
    yield from _node_selector(path, unit, flavor)


def _probe(path: str, name: str, check: CheckSpec, unit: UnitSpec) -> Iterator[Problem]:
    if check.ways != 1:
        yield Problem(path, f"says {check.ways} ways to ask; say one of httpGet, tcpSocket, exec")
    if name != "readiness" and check.success_threshold != 1:
        yield Problem(f"{path}.successThreshold", f"{check.success_threshold}: {name} succeeds at once; remove it")
    ports = {port.name: port.port for port in unit.ports}
    if isinstance(check.port, str) and check.port not in ports:
        known = ", ".join(ports) or "none"
        yield Problem(f"{path}.port", f"{check.port!r} is no port of the unit: {known}")
    if check.port == names.SSHD_PORT:
        yield Problem(
            f"{path}.port", f"{names.SSHD_PORT} is sshd's own, whose end must never be the program's; ask the program"
        )


def _grace(path: str, unit: UnitSpec) -> Iterator[Problem]:
    grace = seconds(unit.grace)
    if grace > LONGEST_GRACE:
        yield Problem(f"{path}.grace", f"{unit.grace} is longer than any drain waits; at most {LONGEST_GRACE}s")
    elif "grace" in unit.model_fields_set and grace >= seconds(unit.timeout):
        yield Problem(
            f"{path}.grace",
            f"{unit.grace} is not below the timeout {unit.timeout}, in which `up` waits for a restart",
        )


def _start(path: str, unit: UnitSpec) -> Iterator[Problem]:
    if unit.must_run >= seconds(unit.timeout):
        yield Problem(
            f"{path}.timeout",
            f"{unit.timeout} is not above startSeconds, {unit.must_run} s, for which its program must run before `up` "
            "ends; wait longer, or watch its start for less",
        )


def _node_selector(path: str, unit: UnitSpec, flavor: Flavor | None) -> Iterator[Problem]:
    for key, value in (flavor.node_selector if flavor else {}).items():
        if unit.node_selector.get(key, value) != value:
            yield Problem(
                f"{path}.nodeSelector.{key}",
                f"{unit.node_selector[key]!r} is not the {value!r} of flavor {unit.flavor}; take another flavor",
            )
