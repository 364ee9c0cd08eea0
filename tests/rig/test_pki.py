"""Certificates and kubeconfigs."""

import base64
import json
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from tools.rig import Network, config, pki
from tools.rig.state import Folder

NETWORK = Network(IPv4Network("10.140.0.0/16"))


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Return a folder with all certificates of a rig."""
    pki.write_all(tmp_path / "pki", "x", NETWORK)
    return tmp_path / "pki"


def certificate(path: Path) -> x509.Certificate:
    """Read a certificate."""
    return x509.load_pem_x509_certificate(path.read_bytes())


@pytest.mark.parametrize("name", pki.identities("x"))
def test_clients_of_the_cluster_cannot_enter_etcd(keys: Path, name: str) -> None:
    """Each identity is signed by the cluster's authority, which etcd does not trust."""
    client = certificate(keys / f"{name}.crt")
    client.verify_directly_issued_by(certificate(keys / "ca.crt"))

    with pytest.raises((InvalidSignature, ValueError)):
        client.verify_directly_issued_by(certificate(keys / "etcd-ca.crt"))


def test_only_the_administrator_is_a_master() -> None:
    """No component has more rights than its role gives."""
    assert [name for name, who in pki.identities("x").items() if who.group == "system:masters"] == ["admin"]


def test_keys_are_for_their_owner_alone(keys: Path) -> None:
    """No key file can be read by others."""
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in keys.glob("*.key")} == dict.fromkeys(
        (path.name for path in keys.glob("*.key")), "0o600"
    )


def test_api_server_is_known_by_its_addresses(keys: Path) -> None:
    """The host, pods and the node itself reach it under different addresses."""
    found = certificate(keys / "kube-apiserver.crt").extensions.get_extension_for_class(x509.SubjectAlternativeName)

    assert {NETWORK.node_ip, NETWORK.api_ip} < set(found.value.get_values_for_type(x509.IPAddress))


def test_a_restart_renews_certificates_and_keeps_authorities(keys: Path) -> None:
    """A kubeconfig copied from an earlier run stays good."""
    files = ("ca.crt", "etcd-ca.crt", "service-account.key", "admin.crt")
    before = {name: (keys / name).read_bytes() for name in files}
    pki.write_all(keys, "x", NETWORK)

    assert [name for name in files if (keys / name).read_bytes() != before[name]] == ["admin.crt"]


def test_kubeconfig(tmp_path: Path) -> None:
    """The kubeconfig names the rig, carries a certificate instead of a token, and is for its owner alone."""
    folder = Folder(tmp_path)
    folder.make()
    pki.write_all(folder.inside / "pki", "x", NETWORK)
    config.write_all(folder, "x", NETWORK, can_raise_oom=False)
    found = json.loads(folder.kubeconfig.read_text())

    assert folder.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert found["current-context"] == "rig-x"
    assert found["clusters"][0]["cluster"]["server"] == f"https://{NETWORK.node_ip}:6443"
    (user,) = found["users"]
    assert set(user["user"]) == {"client-certificate-data", "client-key-data"}
    subject = x509.load_pem_x509_certificate(base64.b64decode(user["user"]["client-certificate-data"])).subject
    assert subject.rfc4514_string() == "CN=rig-admin,O=system:masters"
