"""The probe: what counts as closed, when a verdict stands, and what it says."""

import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from probe.report import verdict
from probe.rounds import Row
from probe.targets import InputError, Target, cluster_domain, nameservers, read
from probe.tries import Answer, attempt, resolve

from tests.services.world import ROOT, python, wait_for

HERE = Path(__file__).parent
SPACE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]

NETWORK = [
    {"name": f"DNS {p}", "host": "$NAMESERVERS", "port": 53, "protocol": p, "expect": "open", "why": "names"}
    for p in ("UDP", "TCP")
]


def forbidden(name: str, port: int, host: str = "127.0.0.1", **more: Any) -> dict[str, Any]:
    """Say a target that must not answer."""
    return {"name": name, "host": host, "port": port, "protocol": "TCP", "expect": "closed", "why": "walls", **more}


@dataclass
class Run:
    """What one run of the probe came to."""

    status: int
    text: str
    message: str

    @property
    def summary(self) -> dict[str, Any]:
        (line,) = [line for line in self.text.splitlines() if line.startswith("{")]
        found: dict[str, Any] = json.loads(line)
        return found


@dataclass
class Arena:
    """Runs probes in namespaces of their own."""

    folder: Path

    def files(self, targets: object) -> list[str]:
        (self.folder / "targets.json").write_text(json.dumps(targets))
        (self.folder / "resolv.conf").write_text("search svc.cluster.local\nnameserver 127.0.0.1\noptions ndots:5\n")
        where = {"--resolv-conf": "resolv.conf", "--message-file": "message"}
        return [str(self.folder / "targets.json"), *(f"{o}={self.folder / file}" for o, file in where.items())]

    def run(self, targets: object, *options: str, **plan: object) -> Run:
        argv = [sys.executable, "-P", "-s", "-m", "probe", *self.files(targets), *options]
        command = [*SPACE, sys.executable, str(HERE / "arena.py"), json.dumps(plan), *argv]
        env = {"PYTHONPATH": str(ROOT / "services"), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}
        env |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "NODE_IP": "127.0.0.1"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=env)
        assert done.stderr == ""
        message = self.folder / "message"
        return Run(done.returncode, done.stdout, message.read_text() if message.exists() else "")


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return Arena(tmp_path)


def test_walls_that_hold(arena: Arena) -> None:
    """Refused, dropped and unroutable are closed; with cluster DNS open, that is what a tenant should see."""
    targets = [
        *NETWORK,
        forbidden("API server", 443, "$KUBERNETES_SERVICE_HOST"),
        forbidden("silent", 444),
        forbidden("metadata, IPv6", 80, "fd00:ec2::254"),
        forbidden("metadata", 80, "169.254.169.254"),
    ]

    done = arena.run(targets, mute=[444])

    assert (done.status, done.message) == (0, "")
    assert done.summary["ok"]
    assert done.summary["wrong"] == {}
    assert done.summary["targets"] == 6
    assert done.summary["seconds"] < 4
    assert done.text.splitlines()[-1] == "the walls hold: 6 targets are as they should be"
    assert "silent          127.0.0.1:444/TCP       closed    closed (no answer in 2 s)" in done.text


def test_walls_that_do_not_hold(arena: Arena) -> None:
    """One forbidden target that answers is enough; the pod's message has it, and nothing that is right."""
    targets = [*NETWORK, forbidden("kubelet", 10250, "$NODE_IP"), forbidden("API server", 443)]

    done = arena.run(targets, "--deadline=5", tcp={"10250": (0, None)})

    sentence, *rows = done.message.splitlines()
    assert done.status == 1
    assert sentence == "NetworkPolicies are not enforced: 1 forbidden targets answer a pod in a tenant's walls"
    assert rows == ["  kubelet (127.0.0.1:10250/TCP): open, connected"]
    assert done.text.endswith(f"{done.message}\n")
    assert done.summary["wrong"] == {"kubelet": "open"}
    assert len(done.summary) == 5
    assert "API server  127.0.0.1:443/TCP    closed    closed (connection refused)" in done.text


def test_the_message_is_short() -> None:
    """The sentence comes first and the rest is cut: a pod's status holds little."""
    rows = [Row(Target(**forbidden(f"t{n}", 1)), Answer("open", "connected")) for n in range(40)]

    lines = verdict(rows).splitlines()

    assert lines[0].startswith("NetworkPolicies are not enforced: 40 forbidden targets")
    assert lines[-1] == "  and 28 more"
    assert len(lines) == 14


def test_the_start_of_a_pod_may_take_a_moment(arena: Arena) -> None:
    """Walls that come up after the pod are waited for, and how long that took is said in milliseconds."""
    done = arena.run([*NETWORK, forbidden("API server", 443)], "--window", tcp={"443": (0, 2.5)})

    loop, tight_loop = done.summary["answeredMs"], done.summary["apiServerAnsweredMs"]
    assert done.status == 0
    assert 500 < loop < 2500
    assert abs(tight_loop - loop) < 500
    assert "start-up window: a forbidden target last answered" in done.text


def test_no_network_proves_nothing(arena: Arena) -> None:
    """A pod without a network finds all closed, and that is a failure."""
    done = arena.run([*NETWORK, forbidden("API server", 443)], "--deadline=5", dns=None)

    assert done.status == 1
    assert done.message.splitlines()[0] == "what must be open is not, so that what is closed proves nothing"
    assert done.summary["wrong"] == {"DNS UDP": "closed", "DNS TCP": "closed"}


def test_what_was_closed_before_there_was_a_network_does_not_count(arena: Arena) -> None:
    """A plugin that connects a pod late and ignores policies is found all the same, also while another try waits."""
    targets = [*NETWORK, forbidden("API server", 443), forbidden("silent", 444)]

    done = arena.run(targets, "--deadline=8", dns=1.5, tcp={"443": (1.4, None)}, mute=[444])

    assert (done.status, done.summary["wrong"]) == (1, {"API server": "open"})


def test_a_name_that_cannot_be_resolved_is_not_closed(arena: Arena) -> None:
    """What was never tried is not known to be closed."""
    done = arena.run([*NETWORK, forbidden("gate", 9000, "gate.gpu-runtime.svc")], "--deadline=5")

    assert (done.status, done.summary["wrong"]) == (1, {"gate": "unknown"})


@pytest.mark.parametrize(("optional", "found"), [(True, "closed"), (False, "unknown")])
def test_a_name_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, *, optional: bool, found: str) -> None:
    """Only a target that may not be made yet is closed without a name."""
    asked = []

    def nowhere(name: str, *_: object, **__: object) -> None:
        asked.append(name)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)

    answer = asyncio.run(resolve(Target(**forbidden("unit", 80, "unit-a.lab-b.svc", optional=optional)), "c.test"))

    assert asked == ["unit-a.lab-b.svc.c.test."]
    assert answer == Answer(found, "no such name")


def test_trouble_of_our_own_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod without sockets to spare has not tried anything."""

    def none_left(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async def tried() -> Answer:
        with monkeypatch.context() as patch:  # within: the loop needs sockets of its own
            patch.setattr("probe.tries.socket.socket", none_left)
            return await attempt(Target(**forbidden("x", 1)), ("127.0.0.1",), 1.0)

    assert asyncio.run(tried()) == Answer("unknown", "too many open files")


def test_one_open_address_of_several_is_open() -> None:
    """A name of both families is closed only where both are."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = Target(**forbidden("x", server.getsockname()[1]))
        answer = asyncio.run(attempt(target, ("127.0.0.2", "127.0.0.1", "::1"), 1.0))

    assert answer == Answer("open", "connected")


def test_a_stopped_probe_ends_at_once(arena: Arena, tmp_path: Path) -> None:
    """Process 1 of a container has no default for SIGTERM: without a handler each deletion takes the grace period."""
    process = python("probe", *arena.files([*NETWORK, forbidden("x", 1)]), output=tmp_path / "out")
    wait_for(lambda: process.says("trying 3 targets"), "the start")

    assert process.end() == 128 + signal.SIGTERM


BAD: dict[str, Any] = {
    "no list": {"name": "x"},
    "empty": [],
    "nothing open": [forbidden("x", 1)],
    "nothing closed": NETWORK,
    "not an object": ["x"],
    "a key is missing": [{"name": "x"}],
    "an unknown key": [forbidden("x", 1, tcp=True)],
    "port": [*NETWORK, forbidden("x", 65536)],
    "port as text": [*NETWORK, forbidden("x", "443")],  # type: ignore[arg-type]
    "protocol": [*NETWORK, forbidden("x", 1, protocol="UDP")],
    "expect": [*NETWORK, forbidden("x", 1, expect="shut")],
    "variable that is not set": [*NETWORK, forbidden("x", 1, "$NODE_NAME")],
    "variable that is no address": [*NETWORK, forbidden("x", 1, "$HOME")],
}


@pytest.mark.parametrize("said", BAD.values(), ids=BAD)
def test_targets_that_are_none(tmp_path: Path, said: Any) -> None:
    """A list that is not understood as a whole is not tried at all."""
    path = tmp_path / "targets.json"
    path.write_text(json.dumps(said))

    with pytest.raises(InputError):
        read(path, {"NAMESERVERS": "127.0.0.1", "HOME": "/root"})


def test_unreadable_input_has_a_status_of_its_own(arena: Arena) -> None:
    """Who waits for the pod can tell a bad list from bad walls, and both say why."""
    done = arena.run([], "--deadline=5")

    assert (done.status, done.text) == (2, f"{done.message}\n")
    assert done.message.startswith("nothing was tried: ")


@pytest.mark.parametrize(
    ("search", "domain"),
    [("lab-a.svc.cluster.local svc.cluster.local cluster.local", "cluster.local"), ("example.test", None), ("", None)],
)
def test_the_clusters_domain_is_the_one_that_is_searched(search: str, domain: str | None) -> None:
    """A Service is asked for in full: with no upstream, cluster DNS cannot say that a shorter name does not exist."""
    assert cluster_domain(f"nameserver 10.0.0.1\nsearch {search}\n") == domain


def test_a_variable_may_hold_several_addresses(tmp_path: Path) -> None:
    """Each nameserver of the pod is asked."""
    path = tmp_path / "targets.json"
    path.write_text(json.dumps([NETWORK[0], forbidden("x", 1)]))
    said = nameservers("search a b\nnameserver 10.0.0.1\n# nameserver 10.0.0.2\nnameserver fd00::1\n")

    found = [target.where for target in read(path, {"NAMESERVERS": said})]

    assert found == ["10.0.0.1:53/UDP", "[fd00::1]:53/UDP", "127.0.0.1:1/TCP"]
