"""Keys of a running unit, on the real engine, kubelet and sshd: added and taken within seconds, without a restart."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lightkube import ApiError
from lightkube.models.admissionregistration_v1 import (
    MatchResources,
    NamedRuleWithOperations,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
    Validation,
)
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.admissionregistration_v1 import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from lightkube.resources.core_v1 import ConfigMap, Pod
from lightkube.types import PatchType
from status.states import Ssh

from components.keys_now import ANNOTATION
from components.unit_parts import KEYS_DIR
from e2e.conftest import made, on_a_fresh_rig
from e2e.test_gate import state
from e2e.user import uptime
from e2e.world import PATIENCE_SECONDS, World, attempt, wait_until

pytestmark = pytest.mark.e2e

UNIT = "trainer.lab-a"

SOON = 5.0
"""Seconds from the end of `up` within which the unit has the new list, by which every login from then on is judged:
what we promise, and far from the 60 of a kubelet that nobody told."""

OVER = 10.0
"""Seconds from the end of `up` within which a taken key's session is over, as promised."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a stack of these tests' own, up."""
    with on_a_fresh_rig(tmp_path_factory.mktemp("keys"), "e2e") as bare:
        yield made(bare)


class Colleague:
    """Somebody with a key of their own, who uses the stanza that everybody was given."""

    def __init__(self, world: World, folder: Path, name: str) -> None:
        self.world, self.key, self.config = world, folder / name, folder / f"{name}.config"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", self.key], check=True)
        said = world.workspace.ssh_config.read_text()
        self.config.write_text(said.replace(str(world.workspace.identity), str(self.key)))

    @property
    def public(self) -> str:
        """Give the line for the stack file."""
        return self.key.with_suffix(".pub").read_text().strip()

    @property
    def listed(self) -> str:
        """Give the unit's question whether its list has the key."""
        return f"grep -qF '{self.public}' {KEYS_DIR}/authorized_keys"

    @property
    def fingerprint(self) -> str:
        """Give the key's fingerprint as ssh prints it."""
        listed = subprocess.run(["ssh-keygen", "-lf", self.key], check=True, capture_output=True, text=True)
        return listed.stdout.split()[1]

    def gets_in(self) -> bool:
        """Try to log in."""
        with self.trying() as login:
            return login.wait() == 0

    def trying(self) -> "subprocess.Popen[bytes]":
        """Begin to log in."""
        argv = ["ssh", "-F", str(self.config), "-o", "BatchMode=yes", UNIT, "true"]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL)

    @contextmanager
    def session(self, then: str = "sleep 600") -> Iterator["subprocess.Popen[str]"]:
        """Hold a session that has begun."""
        argv = ["ssh", "-F", str(self.config), "-o", "BatchMode=yes", UNIT, f"echo here; {then}"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stdout.readline() == "here\n"
            yield process
            process.kill()


@pytest.fixture(scope="module")
def bob(world: World, tmp_path_factory: pytest.TempPathFactory) -> Colleague:
    """Give somebody who is not in the list."""
    return Colleague(world, tmp_path_factory.mktemp("bob"), "bob")


@pytest.fixture(scope="module")
def alice(world: World, tmp_path_factory: pytest.TempPathFactory) -> Colleague:
    """Give the one who was always in the list."""
    someone = Colleague(world, tmp_path_factory.mktemp("alice"), "alice")
    someone.config.write_text(world.workspace.ssh_config.read_text())
    return someone


def up(world: World, *more_keys: str) -> tuple[str, float]:
    """Run a bare `pulumi up` with *more_keys* in the list; give what it said, and when it ended."""

    def change(config: dict[str, Any]) -> None:
        config["gpu-runtime:tenants"]["lab-a"]["units"]["trainer"]["ssh"]["authorizedKeys"] += more_keys

    with world.changed(change):
        status, said = attempt(world.engine(), "up", "--yes", "--skip-preview")
    assert status == 0, said
    return said, uptime()


@contextmanager
def told_when(witness: Colleague, awaited: str) -> Iterator[Callable[[], float]]:
    """Have a session of *witness* look at the unit's list; give what waits for *awaited* and says when it came true."""
    look = f"until {awaited}; do sleep 0.1; done; cut -d' ' -f1 /proc/uptime"
    with witness.session(look) as looking:
        yield lambda: float(looking.communicate(timeout=PATIENCE_SECONDS)[0])


def pod(world: World) -> Pod:
    """Give the unit's pod."""
    return world.cluster.get(Pod, world.pod("trainer"), namespace="lab-a")


def identity(world: World) -> tuple[str, int]:
    """Give the pod's uid, and how often its containers were started again."""
    found = pod(world)
    assert found.metadata
    assert found.status
    return found.metadata.uid or "", sum(status.restartCount for status in found.status.containerStatuses or ())


def test_keys_come_and_go_within_seconds(world: World, alice: Colleague, bob: Colleague) -> None:
    """A key opens once the unit's list has it, right after `up`; taken out, it opens no more and its session ends."""
    before = identity(world)
    assert not bob.gets_in()

    with told_when(alice, bob.listed) as listed:
        said, ended = up(world, bob.public)
        assert listed() - ended < SOON
    assert "could not be told" not in said
    assert bob.gets_in()

    with alice.session() as stays, bob.session() as goes:
        with told_when(alice, f"! {bob.listed}") as gone:
            _, ended = up(world)
            assert gone() - ended < SOON
        with bob.trying() as refused:
            while goes.poll() is None:
                assert uptime() - ended < OVER, "the session of the taken key is still there"
                time.sleep(0.1)
            assert refused.wait() != 0
        assert stays.poll() is None
    assert alice.gets_in()
    assert identity(world) == before


def test_the_operator_reads_who_came(world: World, bob: Colleague) -> None:
    """With the right to read logs alone: start, key and end of each session, from the container beside the unit's."""

    def said() -> list[dict[str, Any]]:
        lines = world.cluster.log(world.pod("trainer"), namespace="lab-a", container="tunnel")
        return [json.loads(line) for line in lines if '"session"' in line]

    def of_bob() -> list[dict[str, Any]]:
        return [line for line in said() if line.get("key") == bob.fingerprint]

    def whats(lines: list[dict[str, Any]]) -> list[str]:
        return sorted(line["what"] for line in lines)

    wait_until(lambda: whats(of_bob()) == ["end", "end", "start", "start"], "both sessions of the colleague to be told")
    assert {line["user"] for line in of_bob()} == {"alice"}
    assert "revoked" in whats(said())


def test_nothing_is_written_while_nothing_changes(world: World) -> None:
    """A second `up` leaves the pod as it is: neither the hook nor anything else writes to it."""
    version = (pod(world).metadata or ObjectMeta()).resourceVersion
    up(world)

    assert (pod(world).metadata or ObjectMeta()).resourceVersion == version


def test_who_may_not_touch_pods_is_told_of_the_slow_path(world: World, bob: Colleague) -> None:
    """Where the hook is refused, `up` succeeds all the same, and says which unit waits for the kubelet, and why."""
    before = identity(world)
    with pods_frozen(world):
        said, _ = up(world, bob.public)
    try:
        assert f"unit {UNIT}: its running pod could not be told that its keys changed" in said
        assert "frozen by this test" in said
        assert "within 60 to 90 seconds" in said
        assert identity(world) == before
    finally:
        up(world)


@contextmanager
def pods_frozen(world: World) -> Iterator[None]:
    """Have the API server refuse every change of a pod in lab-a, as a cluster's own policy may."""
    meta = ObjectMeta(name="frozen-pods")
    rule = NamedRuleWithOperations(apiGroups=[""], apiVersions=["v1"], operations=["UPDATE"], resources=["pods"])
    where = MatchResources(
        resourceRules=[rule], namespaceSelector=LabelSelector(matchLabels={"kubernetes.io/metadata.name": "lab-a"})
    )
    refuse = Validation(expression="false", message="frozen by this test")
    policy = ValidatingAdmissionPolicySpec(matchConstraints=where, validations=[refuse], failurePolicy="Fail")
    binding = ValidatingAdmissionPolicyBindingSpec(policyName="frozen-pods", validationActions=["Deny"])
    world.cluster.create(ValidatingAdmissionPolicy(metadata=meta, spec=policy))
    world.cluster.create(ValidatingAdmissionPolicyBinding(metadata=meta, spec=binding))
    try:
        wait_until(lambda: not told(world, "tried"), "the policy to be in force")
        yield
    finally:
        world.cluster.delete(ValidatingAdmissionPolicyBinding, "frozen-pods")
        world.cluster.delete(ValidatingAdmissionPolicy, "frozen-pods")
        wait_until(lambda: told(world, "thawed"), "the policy to be gone")


def told(world: World, value: str) -> bool:
    """Annotate the unit's pod; whether that was allowed."""
    patch = {"metadata": {"annotations": {ANNOTATION: value}}}
    try:
        world.cluster.patch(Pod, world.pod("trainer"), patch, namespace="lab-a", patch_type=PatchType.MERGE)
    except ApiError:
        return False
    return True


def test_a_deleted_list_admits_nobody(world: World, alice: Colleague) -> None:
    """The ConfigMap is deleted by hand: sessions end, nobody gets in, status says so; `up --refresh` brings it back."""
    before = identity(world)
    wait_until(lambda: state(world, "trainer") == (Ssh.REACHABLE, "Announced"), "status to tell that a login works")
    with alice.session() as session:
        world.cluster.delete(ConfigMap, "unit-trainer-keys", namespace="lab-a")
        assert told(world, "deleted"), "so that the test need not wait for the kubelet's own look"
        wait_until(lambda: session.poll() is not None, "the session to end")
    assert not alice.gets_in()
    wait_until(lambda: state(world, "trainer") == (Ssh.PENDING, "NoKeys"), "status to tell why none does")

    status, said = attempt(world.engine(), "up", "--yes", "--skip-preview", "--refresh")
    assert status == 0, said
    wait_until(alice.gets_in, "the login to work again")
    wait_until(lambda: state(world, "trainer") == (Ssh.REACHABLE, "Announced"), "status to tell that one does again")
    assert identity(world) == before
