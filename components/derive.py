"""Everything secret, derived from one stack secret: each value under its own info string, none from another.

HKDF-SHA256 (RFC 5869) with an empty salt. Host keys, the gate key, the frp token and the TLS certificates are functions
of (secret, epoch, names) alone, so that a stack that is destroyed and made again keeps its identities.
"""

import base64
import datetime as dt
import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

MIN_SECRET_LENGTH = 32
"""32 hexadecimal digits carry 128 bits, below which the secret, not a cipher, would be the weakest part."""

P256_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of the group of NIST P-256 (FIPS 186-5, section 4.2)."""

SCALAR_BYTES = 48
"""128 bits more than the order of P-256, so that reducing leaves no bias (FIPS 186-5, A.2.1)."""

VALID_FROM = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
VALID_FOR = dt.timedelta(days=3650)
"""Fixed, not counted from today: a certificate must be the same bytes at each preview. Rotate by epoch."""

SSH_AUTH_MAGIC = b"openssh-key-v1\0"
SSH_BLOCK = 8
"""Block size of the cipher "none" in OpenSSH's private key format (PROTOCOL.key)."""


def subkey(secret: str, epoch: int, info: str, size: int = 32) -> bytes:
    """Derive *size* bytes for the one purpose that *info* names."""
    kdf = HKDF(hashes.SHA256(), length=size, salt=None, info=f"gpu-runtime/{epoch}/{info}".encode())
    return kdf.derive(secret.encode())


def gate_key(secret: str, epoch: int) -> str:
    """Give the key that the gate holds: 64 hexadecimal digits."""
    return subkey(secret, epoch, "gate").hex()


def frp_token(secret: str, epoch: int) -> str:
    """Give the token that tunnel clients share with the tunnel servers: 64 hexadecimal digits."""
    return subkey(secret, epoch, "frp-token").hex()


def web_password(secret: str, epoch: int, namespace: str, user: str, web_epoch: int) -> str:
    """Give the password of one user of a tenant's pages: 128 bits as 26 letters and digits, easy to read aloud."""
    return (
        base64.b32encode(subkey(secret, epoch, f"web/{namespace}/{user}/{web_epoch}", 16)).decode().rstrip("=").lower()
    )


def session_key(secret: str, epoch: int) -> str:
    """Give what the proxy seals sessions with: 64 hexadecimal digits; another one ends all of them."""
    return subkey(secret, epoch, "web-session").hex()


def callback_key(secret: str, epoch: int) -> str:
    """Give what the proxy seals an issuer's codes with: 64 hexadecimal digits."""
    return subkey(secret, epoch, "web-callback").hex()


def stack_key(gate: str, owner: str) -> bytes:
    """Derive from the gate's key the one that stack *owner* signs capabilities with."""
    return HKDF(hashes.SHA256(), length=32, salt=None, info=f"gpu-runtime/stack/{owner}".encode()).derive(
        bytes.fromhex(gate)
    )


def capability(key: bytes, namespace: str, unit: str, host: str) -> str:
    """Sign the right of one unit to announce one host: 64 hexadecimal digits."""
    return hmac.new(key, f"{namespace}\0{unit}\0{host}".encode(), hashlib.sha256).hexdigest()


def fingerprint(*values: str) -> str:
    """Give 16 hexadecimal digits that change when any of *values* does and reveal none of them."""
    return hashlib.sha256(b"gpu-runtime/fingerprint\0" + "\0".join(values).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class HostKey:
    """An SSH host key: the private file, and the public ``ssh-ed25519 AAAA...`` that clients pin."""

    private: str
    public: str


def host_key(secret: str, epoch: int, namespace: str, unit: str) -> HostKey:
    """Derive the Ed25519 host key of a unit, which stays when the unit is deleted and made again."""
    info = f"host-key/{namespace}/{unit}"
    seed = subkey(secret, epoch, info)
    public = ed25519.Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    check = subkey(secret, epoch, f"{info}/check", 4)
    return HostKey(_openssh_private(seed, public, check), f"ssh-ed25519 {_base64(_ssh_public(public))}")


def _openssh_private(seed: bytes, public: bytes, check: bytes) -> str:
    """Encode as OpenSSH does (PROTOCOL.key), with a derived check value: the library's is random each time."""
    body = check + check + _ssh_public(public) + _ssh_string(seed + public) + _ssh_string(b"")
    padding = bytes(range(1, SSH_BLOCK - len(body) % SSH_BLOCK + 1)) if len(body) % SSH_BLOCK else b""
    head = SSH_AUTH_MAGIC + _ssh_string(b"none") + _ssh_string(b"none") + _ssh_string(b"") + (1).to_bytes(4)
    text = _base64(head + _ssh_string(_ssh_public(public)) + _ssh_string(body + padding))
    lines = [text[i : i + 70] for i in range(0, len(text), 70)]
    return "\n".join(("-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END OPENSSH PRIVATE KEY-----", ""))


def _ssh_public(public: bytes) -> bytes:
    return _ssh_string(b"ssh-ed25519") + _ssh_string(public)


def _ssh_string(value: bytes) -> bytes:
    return len(value).to_bytes(4) + value


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


@dataclass(frozen=True)
class Authority:
    """A certificate authority that lives in the stack secret alone; only its certificate is ever stored."""

    secret: str
    epoch: int
    owner: str

    @property
    def certificate(self) -> str:
        """Give the authority's own certificate as PEM."""
        key = self._key("ca")
        builder = self._builder(self._common_name, key.public_key(), "ca")
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return self._sign(builder.add_extension(usage, critical=True))

    def server(self, host: str, *more: str) -> tuple[str, str]:
        """Give certificate and private key, both PEM, of the server that answers as *host*, and as *more*."""
        key = self._key(f"server/{host}")
        builder = self._builder(host, key.public_key(), f"server/{host}")
        builder = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in (host, *more)]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return self._sign(builder), private.decode()

    @property
    def _common_name(self) -> str:
        return f"gpu-runtime {self.owner} {self.epoch}"

    def _key(self, purpose: str) -> ec.EllipticCurvePrivateKey:
        scalar = int.from_bytes(subkey(self.secret, self.epoch, f"tls/{self.owner}/{purpose}", SCALAR_BYTES))
        return ec.derive_private_key(scalar % (P256_ORDER - 1) + 1, ec.SECP256R1())

    def _builder(self, name: str, public: ec.EllipticCurvePublicKey, purpose: str) -> x509.CertificateBuilder:
        serial = int.from_bytes(subkey(self.secret, self.epoch, f"tls/{self.owner}/{purpose}/serial", 16)) >> 1
        issuer = self._key("ca").public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(_common_name(name))
            .issuer_name(_common_name(self._common_name))
            .public_key(public)
            .serial_number(serial)
            .not_valid_before(VALID_FROM)
            .not_valid_after(VALID_FROM + VALID_FOR)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
        )

    def _sign(self, builder: x509.CertificateBuilder) -> str:
        signed = builder.sign(self._key("ca"), hashes.SHA256(), ecdsa_deterministic=True)
        return signed.public_bytes(serialization.Encoding.PEM).decode()


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
