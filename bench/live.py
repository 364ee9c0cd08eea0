"""What things cost on a rig of the bench's own: its start, an `up` that changes nothing, and a unit's first login."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import yaml
from lightkube import ApiError, Client
from lightkube.resources.apps_v1 import Deployment

from bench import arrival, configs, traffic
from bench.figures import Row
from components import cluster, names
from tools import images, ssh_connect
from tools.rig import Rig
from tools.shell import HEARTBEAT_SECONDS, ToolError, say
from tools.stack import local
from tools.stack.client import through
from tools.stack.engine import REPOSITORY
from tools.stack.workspace import Workspace

RIG = "bench"
SOURCE = REPOSITORY / "stacks" / "Pulumi.local.yaml"
TENANT, UNIT = "lab-a", "trainer"
"""The tenant and unit of SOURCE beside which the late units come."""

READY_GOAL_SECONDS = 15.0
MEMORY_GOAL_MIB = 1536.0
NOTHING_GOAL_SECONDS = 30.0
LOGIN_GOAL_SECONDS = 3.3
"""What system A, patched, takes at most; at best it takes 1.9."""

RESTING = 5
"""Units of the stack whose traffic is measured."""

SSH_OPTIONS = (
    "ControlMaster=no",
    "BatchMode=yes",
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "LogLevel=ERROR",
)
"""Of a client that asks nobody; host keys are not the question here."""

LOOK_SECONDS = 0.05
"""Between two looks for a new Deployment or an answer at the entrance: short against a login, and cheap."""

PATIENCE_SECONDS = 300.0
"""For one unit to appear and to be reached; more is a failure and no figure."""


def rows(parts: set[str], rounds: int) -> Iterator[Row]:
    """Measure *parts*, of all but previews, and yield the report's rows; the rig is removed at the end."""
    # what the first use builds is no part of any figure
    images.build(*local.IMAGES, *local.named(local.template(SOURCE)))
    rig = Rig(RIG)
    with TemporaryDirectory(prefix="gpu-runtime-bench-") as scratch, _gone_at_the_end(rig):
        yield from _rig_rows(rig, rounds if "rig" in parts else 1)
        if parts & {"second-up", "login", "traffic"}:
            workspace = Workspace(Path(scratch) / "stack", RIG, Path(scratch) / "Pulumi.source.yaml")
            yield from _stack_rows(workspace, rig, parts, rounds)


@contextmanager
def _gone_at_the_end(rig: Rig) -> Iterator[None]:
    try:
        yield
    finally:
        rig.down()


def _rig_rows(rig: Rig, rounds: int) -> Iterator[Row]:
    """Start the rig from nothing, several times, with programs and images in the cache; leave the last one running."""
    seconds, memory = [], []
    for _ in range(rounds):
        rig.down()
        seconds.append(_timed(rig.up))
        memory.append(rig.memory / 2**20)
    yield _row("rig: from nothing to Ready, seconds", seconds, READY_GOAL_SECONDS)
    yield _row("rig: memory when Ready, MiB", memory, MEMORY_GOAL_MIB)


def _stack_rows(workspace: Workspace, rig: Rig, parts: set[str], rounds: int) -> Iterator[Row]:
    template = yaml.safe_load(SOURCE.read_text())["config"]
    _say_stack(workspace, template)
    yield _row("first up on a Ready rig, seconds", [_timed(lambda: local.up(workspace, rig))])
    yield _row("rig: memory with the local stack, MiB", [rig.memory / 2**20], MEMORY_GOAL_MIB)
    if "second-up" in parts:
        again = [_timed(lambda: local.up(workspace, rig)) for _ in range(rounds)]
        yield _row("second up without changes, seconds", again, NOTHING_GOAL_SECONDS)
    lean = configs.without_pages(template)  # two processors have to do for all that comes beside it
    for part in [part for part in ("login", "traffic") if part in parts]:
        _say_stack(workspace, lean)
        local.up(workspace, rig)
        yield from _login_rows(workspace, rig, lean, rounds) if part == "login" else _traffic_rows(workspace, rig, lean)


def _login_rows(workspace: Workspace, rig: Rig, template: configs.Config, rounds: int) -> Iterator[Row]:
    """Measure ours and system A's shape in turn, so that both have the same machine."""
    ours, shape, words = [], [], ""
    client = cluster.connect(str(rig.kubeconfig), f"rig-{rig.name}")
    for number in range(rounds):
        seconds, words = _late_login(workspace, rig, template, number)
        ours.append(seconds)
        pod = arrival.pod_of_two(f"two-{number}", workspace.stack, TENANT, _bundle(client))
        shape.append(arrival.until_both_run(client, pod, _patiently))
    yield _row("object creation to first login, seconds", ours, LOGIN_GOAL_SECONDS, f"last: {words}")
    yield _row("a pod of system A's shape until it runs, seconds", shape, note="its login comes later")
    yield _row("first login / that pod", [one / other for one, other in zip(ours, shape, strict=True)])


def _bundle(client: Client) -> str:
    """Give the bundle's image as the cluster has it."""
    found = client.get(Deployment, names.unit(UNIT), namespace=TENANT).to_dict()
    volumes = found["spec"]["template"]["spec"]["volumes"]
    return next(str(one["image"]["reference"]) for one in volumes if one["name"] == "bundle")


def _patiently(holds: Callable[[], bool], what: str) -> None:
    done: Future[local.Made] = Future()
    _until(holds, done, what)


def _traffic_rows(workspace: Workspace, rig: Rig, template: configs.Config) -> Iterator[Row]:
    """Add units until there are RESTING, with what processors are left, and measure what they cost and give."""
    _say_stack(workspace, configs.grown(template, TENANT, UNIT, RESTING - 1, "200m"))
    local.up(workspace, rig)
    client = cluster.connect(str(rig.kubeconfig), f"rig-{rig.name}")
    spaces = [names.PLATFORM_NAMESPACE, TENANT, names.probe_namespace(workspace.stack)]
    yield traffic.writes_at_rest(client, spaces)
    ways = [_way(workspace, rig, template, f"late-{number}") for number in range(RESTING - 1)]
    yield from traffic.echo_beside_a_copy(*ways[:2])
    yield traffic.logins_at_once(ways)


def _way(workspace: Workspace, rig: Rig, template: configs.Config, unit: str) -> traffic.Way:
    said = ("-i", str(workspace.identity), *(word for option in SSH_OPTIONS for word in ("-o", option)))
    host = f"{configs.USER}@{_host(template, unit)}"
    return traffic.Way(_entrance(template, rig), host, said)


def _timed(what: Callable[[], object]) -> float:
    began = time.monotonic()
    what()
    return time.monotonic() - began


def _row(what: str, found: list[float], goal: float | None = None, note: str = "") -> Row:
    shown = f"{median(found):.1f} (best {min(found):.1f}, {len(found)} runs)"
    return Row(what, shown, median(found), goal, ", ".join(filter(None, (note, f"load {os.getloadavg()[0]:.1f}"))))


def _say_stack(workspace: Workspace, config: configs.Config) -> None:
    workspace.source.write_text(yaml.safe_dump({"config": config}))


def _late_login(workspace: Workspace, rig: Rig, template: configs.Config, number: int) -> tuple[float, str]:
    """Add a unit by another `up`; give the seconds from its Deployment to its first login, and what they are made of.

    The moment is when we see it: an object's own timestamp has whole seconds.
    """
    grown = configs.grown(template, TENANT, UNIT, number + 1)
    _say_stack(workspace, grown)
    client = cluster.connect(str(rig.kubeconfig), f"rig-{rig.name}")
    with ThreadPoolExecutor(1) as pool:
        up = pool.submit(local.up, workspace, rig)
        _until(lambda: _exists(client, f"late-{number}"), up, "its Deployment")
        moments = arrival.Moments(client, TENANT, names.selector("unit", f"late-{number}"))
        entrance, host = _entrance(template, rig), _host(template, f"late-{number}")
        _until(lambda: moments.look("greeting", _greets(entrance, host)), up, "sshd behind the entrance")
        _until(lambda: _logs_in(workspace, entrance, host), up, "a login")
        seconds = time.monotonic() - moments.began
        say(f"login {number + 1}: {seconds:.2f} s after the Deployment: {moments.words}")
        up.result()
    return seconds, moments.words


def _until(holds: Callable[[], bool], up: "Future[local.Made]", what: str) -> None:
    """Look until *what* is there; an `up` that failed ends it. Raises ToolError after PATIENCE_SECONDS."""
    began = said = time.monotonic()
    while not holds():
        if up.done():
            up.result()
        now = time.monotonic()
        if now - began > PATIENCE_SECONDS:
            raise ToolError(f"no {what} after {PATIENCE_SECONDS:.0f} s")
        if now - said > HEARTBEAT_SECONDS:
            said = now
            say(f"waiting for {what}, {now - began:.0f} s")
        time.sleep(LOOK_SECONDS)


def _exists(client: Client, unit: str) -> bool:
    try:
        client.get(Deployment, names.unit(unit), namespace=TENANT)
    except ApiError:
        return False
    return True


def _entrance(template: configs.Config, rig: Rig) -> tuple[str, int]:
    return str(rig.node_ip), int(template[f"{configs.PREFIX}platform"]["ssh"]["connect"]["port"])


def _host(template: configs.Config, unit: str) -> str:
    return names.unit_host(unit, TENANT, template[f"{configs.PREFIX}platform"]["ssh"]["domainSuffixes"][0])


def _greets(entrance: tuple[str, int], host: str) -> bool:
    """Say whether sshd answers: a look that costs nothing, while a whole ssh would slow what it waits for."""
    try:
        tunnel = ssh_connect.connect(entrance, host, "22")
    except (ssh_connect.RefusedError, OSError):
        return False
    with tunnel:
        return bool(tunnel.recv(1))


def _logs_in(workspace: Workspace, entrance: tuple[str, int], host: str) -> bool:
    """Log in as a client would."""
    proxy = (f"{key}={value}" for key, value in through(*entrance).items())
    said = [word for option in (*SSH_OPTIONS, *proxy) for word in ("-o", option)]
    argv = ["ssh", "-F", "none", "-i", str(workspace.identity), *said, f"{configs.USER}@{host}", "true"]
    return subprocess.run(argv, capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode == 0
