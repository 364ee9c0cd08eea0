import hashlib
import hmac

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from gate.capability import capability, hkdf_sha256, is_own_run_id, new_run_id, proving_key, stack_key

from tests.services.world import GATE_KEY, OTHER_KEY, claim


def test_hkdf_is_rfc_5869() -> None:
    """Whoever derives keys with another library gets ours: the RFC's test case 3, its first block."""
    derived = hkdf_sha256(bytes([0x0B] * 22), b"")
    assert derived.hex() == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"


def test_capability_is_what_the_program_derives() -> None:
    """The derivation, made again with another library, agrees; so does the pinned value."""
    said = claim()
    key = HKDF(hashes.SHA256(), 32, None, b"gpu-runtime/stack/dev").derive(GATE_KEY)
    message = b"lab-a\0trainer\0trainer.lab-a.ssh.example.test"
    assert capability(stack_key(GATE_KEY, "dev"), said) == hmac.new(key, message, hashlib.sha256).hexdigest()
    assert (
        capability(stack_key(GATE_KEY, "dev"), said)
        == "7dd85cb296a993d3ec35e21adbd9e4c427fa1e2f57d38f100b9fe8ba2340c3c2"
    )


def test_capability_belongs_to_one_unit_of_one_stack() -> None:
    """Another unit, namespace, owner or key has another capability."""
    others = [claim("other"), claim(namespace="lab-b"), claim(owner="prod")]
    own = capability(stack_key(GATE_KEY, "dev"), claim())
    assert proving_key(own, claim(), (GATE_KEY,)) == 0
    assert [proving_key(own, other, (GATE_KEY,)) for other in others] == [None] * 3
    assert proving_key(own, claim(), (OTHER_KEY,)) is None
    assert proving_key("", claim(), (GATE_KEY,)) is None
    assert proving_key("é" * 64, claim(), (GATE_KEY,)) is None


def test_any_key_of_the_file_will_do() -> None:
    """While a key is rotated, capabilities of the new and of the previous one both hold, and are told apart."""
    for place, key in enumerate((GATE_KEY, OTHER_KEY)):
        assert proving_key(capability(stack_key(key, "dev"), claim()), claim(), (GATE_KEY, OTHER_KEY)) == place


def test_a_run_id_serves_its_unit_only() -> None:
    """A run id is of use to the unit that got it, again after a rotation, and to no other."""
    run_id = new_run_id(claim(), (OTHER_KEY,))
    assert is_own_run_id(run_id, claim(), (GATE_KEY, OTHER_KEY))
    assert not is_own_run_id(run_id, claim("other"), (GATE_KEY, OTHER_KEY))
    assert not is_own_run_id(run_id, claim(), (GATE_KEY,))
    assert not is_own_run_id("72597bd25999419a", claim(), (GATE_KEY,))
    assert new_run_id(claim(), (GATE_KEY,)) != new_run_id(claim(), (GATE_KEY,))
