"""Identities derived from the stack secret."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from components import derive

SECRET = "0123456789abcdef" * 4

VECTORS = {
    "gate": "d443a1867a82d80488ffadfea31e1212fe8985f0bfb41f5dd52801de4a92ce85",
    "token": "a306af9718d60aac7d4914ce1160222f10f53b2f7c118ae44eb372b86a8d5b58",
    "right": "c4acee0403339c867f09ccaaa2ffb6a0db8182d25093d0b61ce77b337cbf2297",
    "host": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDsvfX7Vnu7Mn4gFp6Um/Lrm7a+dl/SOL+QsSj0APcH+",
}


def test_vectors() -> None:
    """The derivation is an interface: another release must give the same identities for the same secret."""
    gate = derive.gate_key(SECRET, 0)

    assert gate == VECTORS["gate"]
    assert derive.frp_token(SECRET, 0) == VECTORS["token"]
    assert (
        derive.capability(derive.stack_key(gate, "prod"), "lab-a", "trainer", "trainer.lab-a.ssh") == VECTORS["right"]
    )
    assert derive.host_key(SECRET, 0, "lab-a", "trainer").public == VECTORS["host"]


def test_a_host_key_is_stable_and_its_own() -> None:
    """The same unit keeps its key; another unit, namespace, epoch or secret has another."""
    key = derive.host_key(SECRET, 0, "lab-a", "trainer")
    others = {
        derive.host_key(SECRET, 0, "lab-a", "other").public,
        derive.host_key(SECRET, 0, "lab-b", "trainer").public,
        derive.host_key(SECRET, 1, "lab-a", "trainer").public,
        derive.host_key(SECRET[::-1], 0, "lab-a", "trainer").public,
    }

    assert derive.host_key(SECRET, 0, "lab-a", "trainer") == key
    assert key.public not in others
    assert len(others) == 4


def test_openssh_reads_the_host_key(tmp_path: Path) -> None:
    """ssh-keygen and the library both read the private file and find the public key that clients pin."""
    key = derive.host_key(SECRET, 0, "lab-a", "trainer")
    loaded = load_ssh_private_key(key.private.encode(), None)
    assert loaded.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode() == key.public

    keygen = shutil.which("ssh-keygen")
    if keygen is None:
        pytest.skip("no ssh-keygen on this machine; the library's reading was checked")
    file = tmp_path / "key"
    file.write_text(key.private)
    file.chmod(0o600)
    found = subprocess.run([keygen, "-y", "-f", file], capture_output=True, text=True, check=True).stdout
    assert found.split()[:2] == key.public.split()


def test_capabilities_bind_every_part() -> None:
    """A capability is good for one namespace, unit and host of one stack, however the parts are cut."""
    key, other = (derive.stack_key(derive.gate_key(SECRET, 0), owner) for owner in ("prod", "dev"))
    rights = [
        derive.capability(key, "lab-a", "trainer", "h"),
        derive.capability(other, "lab-a", "trainer", "h"),
        derive.capability(key, "lab-b", "trainer", "h"),
        derive.capability(key, "lab-a", "other", "h"),
        derive.capability(key, "lab-a", "trainer", "i"),
        derive.capability(key, "lab", "-atrainer", "h"),
    ]

    assert len(set(rights)) == len(rights)


def test_certificates_are_the_same_at_each_preview_and_verify(tmp_path: Path) -> None:
    """Certificates do not change from run to run, and TLS accepts the server under the authority."""
    made = [derive.Authority(SECRET, 0, "prod") for _ in range(2)]
    certificate, private = made[0].server("frps.gpu-runtime")
    assert (certificate, private) == made[1].server("frps.gpu-runtime")

    (tmp_path / "server.pem").write_text(private + certificate)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cadata=made[0].certificate)
    server.load_cert_chain(tmp_path / "server.pem")
    assert handshake(server, client, "frps.gpu-runtime")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, client, "gate.gpu-runtime.svc")


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> bool:
    """Shake hands in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    done = [False, False]
    for _ in range(10):
        for index, end in enumerate(ends):
            try:
                end.do_handshake()
                done[index] = True
            except ssl.SSLWantReadError:
                pass
    return all(done)


def test_private_key_matches_and_authority_never_leaves() -> None:
    """A server's key is its certificate's, and differs from the authority's."""
    authority = derive.Authority(SECRET, 0, "prod")
    certificate, private = authority.server("frps.gpu-runtime")
    loaded = x509.load_pem_x509_certificate(certificate.encode())
    root = x509.load_pem_x509_certificate(authority.certificate.encode())
    public = load_pem_private_key(private.encode(), None).public_key()

    assert public == loaded.public_key()
    assert public != root.public_key()
