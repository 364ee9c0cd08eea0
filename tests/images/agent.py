"""An SSH agent with security keys made of software: what sshd sees is what a token's key and signature are."""

import base64
import hashlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.ssh_keys import line, mpint, strings

LIST, LISTED, SIGN, SIGNED, FAILED = 11, 12, 13, 14, 5
"""Messages of the agent protocol."""

APPLICATION = b"ssh:"
TOUCHED, UNTOUCHED = 1, 0
"""Flags of a signature: whether somebody touched the token for it."""


@dataclass(frozen=True)
class Token:
    """A key of a security key: its public line, and how it signs."""

    public: str
    sign: Callable[[bytes], bytes]
    flags: int = TOUCHED

    @property
    def blob(self) -> bytes:
        """Give the public key as SSH sends it."""
        return base64.b64decode(self.public.split()[1])

    def signature(self, data: bytes) -> bytes:
        """Sign *data* as a token does: with its application, its flags and its counter (PROTOCOL.u2f of OpenSSH)."""
        state = struct.pack(">BI", self.flags, 7)
        signed = hashlib.sha256(APPLICATION).digest() + state + hashlib.sha256(data).digest()
        return strings(self.public.split(maxsplit=1)[0].encode(), self.sign(signed)) + state


def ed25519_token(flags: int = TOUCHED) -> Token:
    """Make a key of type sk-ssh-ed25519."""
    key = ed25519.Ed25519PrivateKey.generate()
    return Token(line("sk-ssh-ed25519@openssh.com", key.public_key().public_bytes_raw(), APPLICATION), key.sign, flags)


def ecdsa_token(flags: int = TOUCHED) -> Token:
    """Make a key of type sk-ecdsa-sha2-nistp256."""
    key = ec.generate_private_key(ec.SECP256R1())
    point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def sign(data: bytes) -> bytes:
        return strings(*map(mpint, decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))))

    return Token(line("sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", point, APPLICATION), sign, flags)


@contextmanager
def agent(place: Path, token: Token) -> Iterator[Path]:
    """Serve *token* at the socket *place*."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        threading.Thread(target=_accept, args=(listener, token), daemon=True).start()
        try:
            yield place
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            place.unlink()


def _accept(listener: socket.socket, token: Token) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:  # the test is over
            return
        with client, client.makefile("rwb") as stream:
            while head := stream.read(4):
                answer = _answer(stream.read(int.from_bytes(head)), token)
                stream.write(strings(answer))
                stream.flush()


def _answer(message: bytes, token: Token) -> bytes:
    if message[0] == LIST:
        return bytes([LISTED]) + struct.pack(">I", 1) + strings(token.blob, b"a token")
    if message[0] == SIGN:
        size = int.from_bytes(message[1:5])
        rest = message[5 + size :]
        return bytes([SIGNED]) + strings(token.signature(rest[4 : 4 + int.from_bytes(rest[:4])]))
    return bytes([FAILED])
