"""Landing modes as a stack file says them."""

import copy
from typing import Any

import pytest

from policy.law import judge
from stacks.load import parse
from stacks.resolve import Stack
from tests.stacks.test_refusals import ENCRYPTED, PROD, UNIT, at, refused

ARGS_ALONE = {"args": ["train.py"], "command": []}


def landing(mode: str, **said: Any) -> dict[str, Any]:
    """Give the production stack with its trainer landing in *mode*."""
    changed = copy.deepcopy(PROD)
    for key, value in {"ssh.mode": mode, **said}.items():
        at(f"{UNIT}.{key}", value)(changed)
    return changed


@pytest.mark.parametrize("mode", ["workload", "image", "sidecar"])
def test_a_whole_stack_obeys_the_law_in_every_mode(mode: str) -> None:
    """Nothing that a mode adds makes the set of all objects break a rule: walls, GPUs, tokens."""
    stack = Stack(parse(landing(mode), ENCRYPTED), owner="prod")

    assert [violation.text for violation in judge(stack.manifests())] == []


def test_args_without_command_need_an_entrypoint_that_runs() -> None:
    """Our launcher takes the ENTRYPOINT's place, so that args alone would mean nothing; elsewhere they are its own."""
    said = refused(lambda config: config.update(landing("workload", **ARGS_ALONE)))

    assert f"{UNIT}.args" in said
    for mode in ("image", "sidecar"):
        unit = parse(landing(mode, **ARGS_ALONE), ENCRYPTED).tenants["lab-a"].units["trainer"]
        assert (unit.command, unit.args) == ((), ("train.py",))


@pytest.mark.parametrize("mode", ["image", "sidecar"])
def test_only_our_launcher_can_hold_a_unit(mode: str) -> None:
    """A unit whose program we do not start is not held at its end, and one that asks for it is refused."""
    unit = parse(landing(mode), ENCRYPTED).tenants["lab-a"].units["trainer"]

    assert unit.hold is None
    assert f"mode {mode} leaves out" in refused(lambda config: config.update(landing(mode, afterExit="hold")))


def test_root_is_served_by_our_sshd_alone() -> None:
    """Root in a user namespace has no capability, without which only our sshd serves as user 0."""
    root = {"runAs": {"uid": 0, "gid": 1000}, "userNamespace": True}

    assert "say `ssh: {mode: workload}`" in refused(lambda config: config.update(landing("image", **root)))
    for mode in ("workload", "sidecar"):
        assert parse(landing(mode, **root), ENCRYPTED).tenants["lab-a"].units["trainer"].run_as.is_root
