"""What a unit's capability is: an HMAC under the key of the stack that owns the unit.

``K_stack = HKDF-SHA256(gate key, info="gpu-runtime/stack/" + owner)`` and
``capability = hex HMAC-SHA256(K_stack, namespace NUL unit NUL host)``, so that a stack which is handed its own
``K_stack`` signs for itself and for nobody else.
"""

import hmac
import secrets

from gate.claim import Claim

KEY_BYTES = 32
"""SHA-256's own size: a shorter key would be the weakest part, a longer one adds nothing."""

NONCE_BYTES = 8
"""Tells two logins of one unit apart; unforgeable is the MAC beside it."""

RUN_MAC_HEX = 32
"""128 bits of MAC in a run id, as many as frp's own random run ids have and more than anyone guesses."""


def hkdf_sha256(key: bytes, info: bytes) -> bytes:
    """Derive 32 bytes from *key* (RFC 5869, empty salt, one block)."""
    extracted = hmac.digest(bytes(KEY_BYTES), key, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def stack_key(gate_key: bytes, owner: str) -> bytes:
    """Return ``K_stack`` of the stack *owner*."""
    return hkdf_sha256(gate_key, b"gpu-runtime/stack/" + owner.encode())


def capability(key: bytes, claim: Claim) -> str:
    """Return the capability (64 hex digits) of *claim* under the ``K_stack`` *key*."""
    return hmac.digest(key, f"{claim.namespace}\0{claim.unit}\0{claim.host}".encode(), "sha256").hex()


def proving_key(given: str, claim: Claim, gate_keys: tuple[bytes, ...]) -> int | None:
    """Tell under which of *gate_keys* (from 0) *given* is the capability of *claim*, in constant time per key.

    None: under none of them.
    """
    matches = [
        hmac.compare_digest(given.encode(), capability(stack_key(key, claim.owner), claim).encode())
        for key in gate_keys
    ]
    return matches.index(True) if any(matches) else None


def new_run_id(claim: Claim, gate_keys: tuple[bytes, ...]) -> str:
    """Return a fresh run id that only *claim* can use again."""
    nonce = secrets.token_hex(NONCE_BYTES)
    return f"{nonce}-{_run_mac(gate_keys[0], claim, nonce)}"


def is_own_run_id(run_id: str, claim: Claim, gate_keys: tuple[bytes, ...]) -> bool:
    """Tell whether *run_id* was given to *claim* by a gate that holds one of *gate_keys*."""
    nonce, _, mac = run_id.partition("-")
    matches = [hmac.compare_digest(mac.encode(), _run_mac(key, claim, nonce).encode()) for key in gate_keys]
    return any(matches)


def _run_mac(gate_key: bytes, claim: Claim, nonce: str) -> str:
    # From the gate key and not from K_stack: a stack signs capabilities of its units, never their run ids.
    key = hkdf_sha256(gate_key, b"gpu-runtime/run-id")
    said = f"{claim.owner}\0{claim.namespace}\0{claim.unit}\0{claim.host}\0{nonce}"
    return hmac.digest(key, said.encode(), "sha256").hex()[:RUN_MAC_HEX]
