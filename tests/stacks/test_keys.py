"""Who may log in, as a stack file says it: mistakes are refused where they are, and nothing secret is repeated."""

import copy
from typing import Any

import pytest

from components.gpu_unit import unit_manifests
from stacks.load import parse
from stacks.resolve import BLANK, Stack
from tests.ssh_keys import ED25519, dsa_line, line, mpint
from tests.stack_files import KEY
from tests.stacks.test_refusals import ENCRYPTED, LAB, PROD, UNIT, at, refused

KEYS = f"{UNIT}.ssh.authorizedKeys"
RSA_2048 = line("ssh-rsa", mpint(65537), mpint(1 << 2047 | 1))
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAAB\n"


@pytest.mark.parametrize(
    ("change", "path", "advice"),
    [
        (at(KEYS, []), KEYS, "at least one entry: nobody could log in; write one or a `userCa`"),
        (at(KEYS, [RSA_2048]), f"{KEYS}.0", "is an RSA key of 2048 bits; from 3072"),
        (at(KEYS, [ED25519, dsa_line()]), f"{KEYS}.1", "is of type ssh-dss (DSA)"),
        (at(KEYS, ["ssh-ed25519 AAAA"]), f"{KEYS}.0", "is no ssh-ed25519 public key"),
        (at(KEYS, [KEY, ED25519, f"restrict {KEY}"]), KEYS, "entries 0 and 2 are the same key"),
        (at(KEYS, KEY), KEYS, "must be a list"),
        (at(KEYS, [f'from="10.0.0.0/8" {KEY}']), f"{KEYS}.0", "platform.ssh.service.sourceRanges"),
        (at(KEYS, [KEY] * 201), KEYS, "has 201 entries; at most 200"),
        (at(f"{UNIT}.ssh.userCa", {"keys": []}), f"{UNIT}.ssh.userCa.keys", "at least one entry"),
        (at(f"{UNIT}.ssh.userCa", {"keys": [f"pty {KEY}"]}), f"{UNIT}.ssh.userCa.keys.0", "has options before the key"),
        (at("userCa", {"keys": [RSA_2048]}), "userCa.keys.0", "is an RSA key of 2048 bits"),
        (at("userCa", {"keys": [KEY, KEY]}), "userCa.keys", "entries 0 and 1 are the same key"),
        (at(f"{LAB}.userCa", {"keys": [KEY], "principals": []}), f"{LAB}.userCa.principals", "at least one entry"),
        (at("userCa", {"keys": [KEY], "principals": ["restrict a"]}), "userCa.principals.0", "must be a name of"),
        (at("userCa", {"keys": [KEY], "principals": ["a", "#b"]}), "userCa.principals.1", "must be a name of"),
    ],
)
def test_a_mistake_is_refused_with_path_and_advice(change: Any, path: str, advice: str) -> None:
    """The refusal names where the mistake is and what would be right."""
    said = refused(change)

    assert f"gpu-runtime:{path}: " in said
    assert advice in said


@pytest.mark.parametrize(
    "change",
    [
        at(KEYS, [PRIVATE]),
        at(KEYS, PRIVATE),
        at(KEYS, PRIVATE.splitlines()[1:]),
        at("userCa", {"keys": PRIVATE.splitlines()[1:]}),
        at(f"{UNIT}.ssh.userCa", {"keys": [PRIVATE]}),
        at(f"{UNIT}.ssh.userCa", PRIVATE),
        at(f"{UNIT}.ssh", PRIVATE),
        at(f"{UNIT}.host", PRIVATE),
    ],
    ids=("key", "keys", "bare", "bare-ca", "ca-key", "ca", "ssh", "host"),
)
def test_a_private_key_is_never_shown(change: Any) -> None:
    """Pasted by mistake, wherever, it is refused and not a character of it repeated."""
    said = refused(change)

    assert "BEGIN" not in said
    assert "b3Bl" not in said


@pytest.mark.parametrize("place", ["userCa", f"{LAB}.userCa", f"{UNIT}.ssh.userCa"])
def test_a_ca_stands_in_for_keys(place: str) -> None:
    """With a CA of the unit, its tenant or the stack there need be no key."""
    changed = copy.deepcopy(PROD)
    at(place, {"keys": [ED25519]})(changed)
    at(KEYS, [])(changed)

    ssh = parse(changed, ENCRYPTED).tenants["lab-a"].units["trainer"].ssh
    assert ssh is not None
    assert ssh.authorized_keys == ()


def test_the_nearest_ca_counts() -> None:
    """A tenant's CA stands in place of the stack's, and a unit's own in place of both."""
    changed = copy.deepcopy(PROD)
    at("userCa", {"keys": [KEY]})(changed)
    at(f"{LAB}.userCa", {"keys": [ED25519], "principals": ["lab-a"]})(changed)
    at(f"{UNIT}.ssh.userCa", {"keys": [KEY], "principals": ["trainer"]})(changed)
    units = Stack(parse(changed, ENCRYPTED), "prod").units

    def principals(unit: str) -> str:
        files: dict[str, str] = unit_manifests(units[unit], BLANK)["keys"]["data"]
        return files["authorized_principals"]

    assert principals("trainer.lab-a") == "trainer\n"
    assert principals("notebook.lab-a") == "lab-a\n"
    assert principals("eval.lab-b") == f"{units['eval.lab-b'].host}\n"
