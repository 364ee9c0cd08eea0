"""Keys as ssh-keygen makes them, and keys that only exist as text."""

import base64
import hashlib
import struct
import subprocess
from pathlib import Path

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOjLcZhGeySJfj5fRjocbMLa6OhBYV+iXDGL1oVfdVbI alice@desk"

MADE = {
    "ed25519": ("ed25519",),
    "ecdsa-256": ("ecdsa", "-b", "256"),
    "ecdsa-384": ("ecdsa", "-b", "384"),
    "ecdsa-521": ("ecdsa", "-b", "521"),
    "rsa-3072": ("rsa", "-b", "3072"),
}
"""Kinds that log in, and what ssh-keygen makes them by."""

WEAK = {"rsa-2048": ("rsa", "-b", "2048"), "dsa": ("dsa",)}
"""Kinds that never do; newer ssh-keygens make no DSA."""


def keygen(*arguments: str | Path) -> None:
    """Run ssh-keygen."""
    subprocess.run(["ssh-keygen", "-q", *arguments], check=True)


def make_key(file: Path, *kind: str, comment: str = "alice@laptop") -> str:
    """Make the pair *file*, without a passphrase, and return its public line."""
    keygen("-t", *kind, "-N", "", "-C", comment, "-f", file)
    return file.with_suffix(".pub").read_text().strip()


def dsa_line() -> str:
    """Return a line of type ssh-dss whose form is right; no tool of today makes such keys."""
    numbers = (1 << 1023 | 1, 1 << 159 | 1, 2, 4)
    return line("ssh-dss", *(mpint(number) for number in numbers))


def mpint(number: int) -> bytes:
    """Write a whole number above zero as SSH does (RFC 4251 section 5)."""
    return number.to_bytes(number.bit_length() // 8 + 1)


def strings(*parts: bytes) -> bytes:
    """Join *parts*, each with its length before it."""
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def line(kind: str, *parts: bytes, comment: str = "alice@laptop") -> str:
    """Write a public key of *kind* as a line."""
    return f"{kind} {base64.b64encode(strings(kind.encode(), *parts)).decode()} {comment}"


def fingerprint(public: str) -> str:
    """Give the fingerprint of a public line without options, as ssh-keygen -l has it."""
    digest = hashlib.sha256(base64.b64decode(public.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"
